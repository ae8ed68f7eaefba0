package auth

import (
	"context"
	"net/http"
	"time"

	"github.com/alexedwards/scs/pgxstore"
	"github.com/alexedwards/scs/v2"
	"github.com/jackc/pgx/v5/pgxpool"
)

// NewSessionManager returns the manager of browser sessions, which are stored in PostgreSQL. A session ends after 12 h,
// or after 30 min without a request. The database contains only hashes of the session tokens. The cookie ends with the
// browser. secure means that browsers use TLS; the cookie is then bound to this origin.
func NewSessionManager(pool *pgxpool.Pool, secure bool) *scs.SessionManager {
	m := scs.New()
	m.Store = timeLimitedStore{pgxstore.New(pool)}
	m.HashTokenInStore = true
	m.IdleTimeout = 30 * time.Minute
	m.Lifetime = 12 * time.Hour
	m.Cookie = scs.SessionCookie{
		Name: "quantix", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure,
	}
	if secure {
		m.Cookie.Name = "__Host-quantix"
	}
	return m
}

// storeLimit is the timeout of one access to a session in the database. It also applies to requests without a deadline,
// such as streams.
const storeLimit = 4 * time.Second

type timeLimitedStore struct{ *pgxstore.PostgresStore }

func (b timeLimitedStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	return b.PostgresStore.FindCtx(ctx, token)
}

func (b timeLimitedStore) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	return b.PostgresStore.CommitCtx(ctx, token, data, expiry)
}

func (b timeLimitedStore) DeleteCtx(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	return b.PostgresStore.DeleteCtx(ctx, token)
}
