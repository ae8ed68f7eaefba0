-- name: GetAuthority :one
SELECT cert_pem, key_pem FROM authority;

-- name: AddAuthority :execrows
-- The first portal's authority stays; the others read it.
INSERT INTO authority (cert_pem, key_pem) VALUES (@cert_pem, @key_pem) ON CONFLICT (only_one) DO NOTHING;
