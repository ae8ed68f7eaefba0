package auth

import (
	"net/http"
	"time"

	"github.com/alexedwards/scs/pgxstore"
	"github.com/alexedwards/scs/v2"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sessions keeps browser sessions in PostgreSQL: 12 h at most and 30 min idle, the token stored hashed, the cookie gone
// with the browser. secure says that browsers reach the portal over TLS; the cookie is then bound to this one origin.
func Sessions(pool *pgxpool.Pool, secure bool) *scs.SessionManager {
	m := scs.New()
	m.Store = pgxstore.New(pool)
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
