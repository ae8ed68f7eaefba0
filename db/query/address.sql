-- name: SetAgentAddress :exec
-- The newest portal's word stands. What says so already is not written again.
INSERT INTO portal_address (agent_url) VALUES (@agent_url)
ON CONFLICT (only_one) DO UPDATE SET agent_url = excluded.agent_url WHERE portal_address.agent_url <> excluded.agent_url;

-- name: ForgetAddress :exec
-- Only one's own: another portal may have told another one since.
DELETE FROM portal_address WHERE agent_url = @agent_url;

-- name: AgentAddress :one
SELECT agent_url FROM portal_address;
