-- name: AddAudit :exec
INSERT INTO audit (actor, user_id, address, action, subject, name, detail)
VALUES (@actor, @user_id, @address, @action, @subject, @name, @detail);
