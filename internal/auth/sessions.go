package auth

import (
	"context"
	"net/http"
	"time"

	"github.com/alexedwards/scs/pgxstore"
	"github.com/alexedwards/scs/v2"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sessions returns the manager of browser sessions, stored in PostgreSQL: at most 12 h, and 30 min idle. The database
// contains only hashes of the tokens. The cookie ends with the browser. secure: browsers use TLS, and the cookie is
// bound to this origin.
func Sessions(pool *pgxpool.Pool, secure bool) *scs.SessionManager {
	m := scs.New()
	m.Store = bounded{pgxstore.New(pool)}
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

// storeLimit is the database timeout for one access to a session, also in requests without a deadline, such as streams.
const storeLimit = 4 * time.Second

type bounded struct{ *pgxstore.PostgresStore }

func (b bounded) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	return b.PostgresStore.FindCtx(ctx, token)
}

func (b bounded) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	return b.PostgresStore.CommitCtx(ctx, token, data, expiry)
}

func (b bounded) DeleteCtx(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	return b.PostgresStore.DeleteCtx(ctx, token)
}
