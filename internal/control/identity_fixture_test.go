package control_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/auth"
	"quantix/internal/bmc/redfish"
	"quantix/internal/control"
	"quantix/internal/delivery"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// identityFixture is a Control on a new database to which tests add users.
type identityFixture struct {
	*control.Control
	t    *testing.T
	pool *pgxpool.Pool
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

const goodPassword = "correct horse battery"

// goodHash is the hash of goodPassword. It is computed once per process, because password hashing is slow by design.
var goodHash = sync.OnceValues(func() (string, error) { return auth.HashPassword(context.Background(), goodPassword) })

var (
	anonymous = fleet.Actor{Address: "192.0.2.7"}
	chief     = fleet.Actor{UserID: "chief", Name: "chief", Role: fleet.RoleAdmin, Address: "192.0.2.8"}
)

// newIdentityFixture returns an identityFixture with the administrator chief.
func newIdentityFixture(t *testing.T) *identityFixture {
	t.Helper()
	t.Parallel()
	pool := testkit.DB(t)
	h := &identityFixture{Control: control.New(pool, control.Options{AgentURL: "https://portal.example:8444", Vault: auth.NewVault(), Sender: delivery.New(delivery.Settings{NotifyTo: loopback}), BMCs: redfish.New(loopback)}), t: t, pool: pool}
	h.addUser("chief", fleet.RoleAdmin)
	return h
}

// addUser adds a user with goodPassword. The id is the name.
func (h *identityFixture) addUser(name string, role fleet.Role) fleet.Actor {
	h.t.Helper()
	hash, err := goodHash()
	if err != nil {
		h.t.Fatal(err)
	}
	h.execSQL("INSERT INTO users (id, name, role, password_hash) VALUES ($1, $1, $2, $3)", name, role, hash)
	return fleet.Actor{UserID: fleet.UserID(name), Name: name, Role: role, Address: "192.0.2.9"}
}

func (h *identityFixture) execSQL(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.pool.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *identityFixture) countRowsOf(sql string, args ...any) int {
	h.t.Helper()
	var n int
	if err := h.pool.QueryRow(h.t.Context(), "SELECT count(*) FROM "+sql, args...).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// wantLastAuditAction fails the test unless the newest audit line has the action.
func (h *identityFixture) wantLastAuditAction(action string) {
	h.t.Helper()
	var got string
	if err := h.pool.QueryRow(h.t.Context(), "SELECT action FROM audit ORDER BY id DESC LIMIT 1").Scan(&got); err != nil || got != action {
		h.t.Errorf("the newest audit line is %q, not %q: %v", got, action, err)
	}
}

// signInTime signs the user in and returns the start time of the user's session.
func (h *identityFixture) signInTime(name string) time.Time {
	h.t.Helper()
	user, err := h.SignIn(h.t.Context(), anonymous, name, goodPassword)
	if err != nil {
		h.t.Fatal(err)
	}
	return *user.LastSeenAt
}

func (h *identityFixture) isSessionValid(name string, signedInAt time.Time) bool {
	h.t.Helper()
	_, err := h.ActorOfSession(h.t.Context(), fleet.SystemActor, fleet.UserID(name), signedInAt)
	if err != nil && fleet.CodeOf(err) != fleet.Unauthorized {
		h.t.Fatal(err)
	}
	return err == nil
}

// runConcurrently runs do n times at once and returns the error codes.
func runConcurrently(n int, do func(i int) error) []fleet.ErrorCode {
	codes := make([]fleet.ErrorCode, n)
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			if err := do(i); err != nil {
				if codes[i] = fleet.CodeOf(err); codes[i] == "" {
					codes[i] = fleet.ErrorCode(err.Error())
				}
			}
		})
	}
	start.Done()
	done.Wait()
	return codes
}

func countCodes(codes []fleet.ErrorCode) map[fleet.ErrorCode]int {
	n := map[fleet.ErrorCode]int{}
	for _, code := range codes {
		n[code]++
	}
	return n
}
