-- name: GetAuthority :one
SELECT cert_pem, key_pem, by_key, sealed FROM authority;

-- name: AddAuthority :execrows
-- The first portal's authority stays; other portals read it.
INSERT INTO authority (cert_pem, key_pem, by_key, sealed) VALUES (@cert_pem, sqlc.narg(key_pem), sqlc.narg(by_key), @sealed) ON CONFLICT (only_one) DO NOTHING;

-- name: SealAuthority :execrows
-- Encrypts a key that an older release stored in plain text.
UPDATE authority SET key_pem = NULL, by_key = @by_key, sealed = @sealed WHERE key_pem IS NOT NULL;

-- name: SealedBy :many
-- The IDs of the vault keys with which secrets in the database are encrypted.
SELECT by_key::text FROM (SELECT by_key FROM authority WHERE by_key IS NOT NULL UNION SELECT by_key FROM pool_secrets UNION SELECT by_key FROM first_boots
    UNION SELECT by_key FROM customizations UNION SELECT by_key FROM guest_secrets UNION SELECT by_key FROM channels WHERE by_key IS NOT NULL) k ORDER BY by_key;
