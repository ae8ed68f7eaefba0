-- name: ListViews :many
SELECT * FROM saved_views WHERE user_id = @user_id AND list = @list ORDER BY lower(name), name;

-- name: SaveView :one
-- A view with the same name gets the new query. Inserts no row if the user has max other views of the list.
INSERT INTO saved_views (id, user_id, list, name, query)
SELECT @id, @user_id, @list, @name, @query
WHERE (SELECT count(*) FROM saved_views v WHERE v.user_id = @user_id AND v.list = @list AND v.name <> @name) < @max::bigint
ON CONFLICT ON CONSTRAINT view_name_taken DO UPDATE SET query = EXCLUDED.query
RETURNING *;

-- name: DeleteView :one
DELETE FROM saved_views WHERE id = @id AND user_id = @user_id RETURNING *;
