-- name: SetAgentAddress :exec
-- The address of the portal that started last counts. An equal address is not written again.
INSERT INTO portal_address (agent_url) VALUES (@agent_url)
ON CONFLICT (only_one) DO UPDATE SET agent_url = excluded.agent_url WHERE portal_address.agent_url <> excluded.agent_url;

-- name: ForgetAddress :exec
-- Deletes this portal's address only; another portal may have stored its address since.
DELETE FROM portal_address WHERE agent_url = @agent_url;

-- name: AgentAddress :one
SELECT agent_url FROM portal_address;
