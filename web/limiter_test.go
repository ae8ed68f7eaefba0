package web_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"quantix/internal/fleet"
)

// Further slow searches of a user must wait, while other users are served. The test locks a table to make searches
// slow.
func TestSlowSearchesDelayOnlyTheirUser(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	greedy, other := p.newSignedInBrowser("gus", fleet.RoleAdmin), p.newBrowser()
	p.addUser("mara", fleet.RoleAdmin)
	token, err := p.control.CreateToken(t.Context(), fleet.Actor{UserID: "mara"}, "ci", 0)
	if err != nil {
		t.Fatal(err)
	}
	greedy.get("/vms?filter=*a*b*c*d*", htmxFormHeaders("vm-rows")...).requireStatus(t, http.StatusUnprocessableEntity)
	tx, err := p.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE vms IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	answers := make([]answer, 24)
	var asked sync.WaitGroup
	for i := range answers {
		asked.Go(func() {
			answers[i] = greedy.get("/vms?filter=slow", append(htmxFormHeaders("vm-rows"), "Accept", "application/json")...)
		})
	}
	other.send(http.MethodGet, "/api/v1/users/me", nil, "Authorization", "Bearer "+token.Secret).requireStatus(t, http.StatusOK)
	asked.Wait()
	got := map[int]int{}
	for _, a := range answers {
		got[a.status]++
		if a.status == http.StatusTooManyRequests && !strings.Contains(a.body, "pages and lists load at the same time") ||
			a.status == http.StatusUnprocessableEntity && !strings.Contains(a.body, "This search takes too long.") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if got[http.StatusTooManyRequests] == 0 || got[http.StatusUnprocessableEntity] == 0 || got[http.StatusTooManyRequests]+got[http.StatusUnprocessableEntity] != len(answers) {
		t.Errorf("responses by status: %v", got)
	}
}
