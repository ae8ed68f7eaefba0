package auth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"quantix/internal/auth"
	"quantix/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestSessionTokenIsStoredHashed(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	for name, secure := range map[string]bool{"__Host-quantix": true, "quantix": false} {
		m := auth.NewSessionManager(pool, secure)
		put := m.LoadAndSave(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { m.Put(r.Context(), "user", "u1") }))
		w := httptest.NewRecorder()
		put.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/sign-in", nil))
		cookies := w.Result().Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%d cookies", len(cookies))
		}
		cookie := cookies[0]
		if cookie.Name != name || cookie.Secure != secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode ||
			cookie.Path != "/" || cookie.Domain != "" {
			t.Errorf("the cookie is %+v", cookie)
		}
		var plain int
		var left time.Duration
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM sessions WHERE token = $1", cookie.Value).Scan(&plain)
		if err != nil || plain != 0 {
			t.Errorf("the plain token is stored %d times: %v", plain, err)
		}
		if err := pool.QueryRow(t.Context(), "SELECT expiry - now() FROM sessions").Scan(&left); err != nil || left > 31*time.Minute || left < 29*time.Minute {
			t.Errorf("an idle session lives %v: %v", left, err)
		}

		var user string
		get := m.LoadAndSave(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { user = m.GetString(r.Context(), "user") }))
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.AddCookie(cookie)
		get.ServeHTTP(httptest.NewRecorder(), r)
		if user != "u1" {
			t.Errorf("the session holds %q", user)
		}
		if _, err := pool.Exec(t.Context(), "UPDATE sessions SET expiry = now() - interval '1 second'"); err != nil {
			t.Fatal(err)
		}
		get.ServeHTTP(httptest.NewRecorder(), r)
		if user != "" {
			t.Error("an idle session still lives")
		}
		if _, err := pool.Exec(t.Context(), "DELETE FROM sessions"); err != nil {
			t.Fatal(err)
		}
	}
}
