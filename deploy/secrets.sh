#!/bin/sh
# Make the secrets that docker-compose.yml mounts: random passwords, in files, in a folder that only its owner may enter.
#
#     sh deploy/secrets.sh [FOLDER]        (default: deploy/secrets)
#
# Compose mounts each file with the mode it has on the host and cannot change its owner, and the containers' users are
# not yours: so the files can be read by all, and the folder by nobody else. A folder that is there already is left alone:
# the servers keep the password of their first start.
set -eu

folder=${1:-$(dirname -- "$0")/secrets}
if [ -e "$folder" ]; then
    echo "secrets.sh: $folder is there already; remove it, and the volumes, to begin anew" >&2
    exit 1
fi

password() {
    # 32 letters and digits, about 190 bits; nothing that a URL or a configuration file would have to escape.
    LC_ALL=C tr -dc 'A-Za-z0-9' < /dev/urandom | dd bs=1 count=32 2>/dev/null
}

umask 077
mkdir -p "$folder"
umask 022

broker=$(password)
database=$(password)
cache=$(password)

# For the fleet: whole addresses, which SMENA_…_FILE reads.
printf 'amqp://smena:%s@rabbitmq:5672/%%2F\n' "$broker" > "$folder/amqp_url"
printf 'postgresql://smena:%s@postgres:5432/smena\n' "$database" > "$folder/database_url"
printf 'redis://:%s@valkey:6379/0\n' "$cache" > "$folder/redis_url"

# For the servers: what each of them reads.
printf 'default_user = smena\ndefault_pass = %s\n' "$broker" > "$folder/rabbitmq.conf"
printf '%s\n' "$database" > "$folder/postgres_password"
printf 'requirepass %s\n' "$cache" > "$folder/valkey.conf"

chmod 444 "$folder"/*
echo "made $folder"
