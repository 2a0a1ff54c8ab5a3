-- Give up a seat that is ours and ring for those who wait; returns 1 or 0.
-- KEYS: seat, bell. ARGV: owner.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[2], 1)
redis.call('PEXPIRE', KEYS[2], 1000)
return 1
