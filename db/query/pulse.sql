-- name: Pulse :exec
-- Cheap, and as durable as any other change: a server that cannot write it can do no work.
INSERT INTO pulse DEFAULT VALUES ON CONFLICT (one) DO UPDATE SET at = now();
