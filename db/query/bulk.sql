-- name: AddBulk :exec
INSERT INTO bulk_actions (id, user_id, action, results) VALUES (@id, @user_id, @action, @results);

-- name: GetBulk :one
SELECT * FROM bulk_actions WHERE id = @id AND user_id = @user_id;

-- name: TasksByID :many
SELECT sqlc.embed(j), h.name AS host_name FROM jobs j JOIN hosts h ON h.id = j.host_id
WHERE j.id = ANY (@ids::text[]) AND (@all_projects::boolean OR j.project_id = ANY (@projects::text[]));
