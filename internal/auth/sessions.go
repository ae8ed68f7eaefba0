package auth

import (
	"context"
	"net/http"
	"time"

	"github.com/alexedwards/scs/pgxstore"
	"github.com/alexedwards/scs/v2"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sessions stores browser sessions in PostgreSQL: at most 12 h, and 30 min idle. The token is stored hashed, and the
// cookie ends with the browser. secure means that browsers use TLS; the cookie is then bound to this one origin.
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

// storeLimit is the database timeout for a session, also for requests without a deadline, such as streams.
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
