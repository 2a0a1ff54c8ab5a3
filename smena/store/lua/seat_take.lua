-- Take a seat that is free, ours already, or unchanged since it was seen; under a term greater than any before.
-- KEYS: seat, term, bell. ARGV: owner, lease in ms, floor of the term, owner and beat that were seen too long.
-- Returns the term (0: it is another's), and who has the seat at which beat.
local owner, beat = redis.call('HGET', KEYS[1], 'owner'), redis.call('HGET', KEYS[1], 'beat')
local is_stale = owner == ARGV[4] and beat == ARGV[5]
if owner == ARGV[1] then
    return {redis.call('GET', KEYS[2]), owner, beat}
elseif owner and not is_stale then
    return {0, owner, beat}
end
local term = math.max(tonumber(redis.call('GET', KEYS[2]) or 0), tonumber(ARGV[3])) + 1
redis.call('SET', KEYS[2], string.format('%.0f', term))
redis.call('DEL', KEYS[3])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'beat', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {string.format('%.0f', term), ARGV[1], 0}
