-- Make a seat last from now if it is still ours; returns 1 or 0.
-- KEYS: seat. ARGV: owner, lease in ms.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
    return 0
end
redis.call('HINCRBY', KEYS[1], 'beat', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
