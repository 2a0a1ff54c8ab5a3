"""Programs that use Smena as its users do."""
