package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"quantix/internal/auth"
	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
)

// apiClient is an API client with the token of one user.
type apiClient struct {
	*client.Client
	browser
	token string
}

// newAPIClient creates a user with role in all projects and the given roles in projects, and returns an API client with
// a token of that user.
func (p *portal) newAPIClient(name string, role fleet.Role, projects map[fleet.ProjectID]fleet.Role) *apiClient {
	p.t.Helper()
	p.addUser(name, role)
	for id, r := range projects {
		p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, $3)", id, name, r)
	}
	secret := auth.NewSecret(auth.TokenPrefix)
	p.execSQL("INSERT INTO tokens (id, user_id, name, hash) VALUES ($1, $2, 'test', $3)", fleet.NewID[fleet.TokenID](), name, auth.HashSecret(secret))
	c, err := client.New(p.url, secret, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return &apiClient{c, *p.newBrowser(), secret}
}

// call sends a JSON body with the client's token. header alternates names and values.
func (g *apiClient) call(method, path, body string, header ...string) answer {
	g.t.Helper()
	return g.send(method, path, strings.NewReader(body), append([]string{"Authorization", "Bearer " + g.token, "Content-Type", "application/json"}, header...)...)
}

type problem struct {
	Title, Detail, Reference string
	Status                   int
	Errors                   []struct{ Location, Message string }
}

// requireProblem fails unless the response is a problem with that status and, unless empty, an error at that location.
// It returns the problem.
func (a answer) requireProblem(t testing.TB, status int, location string) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s is not a problem response: %v: %s", a.status, a.header.Get("Content-Type"), err, a.body)
	}
	if a.status != status || p.Status != status || p.Title != http.StatusText(status) || !strings.HasSuffix(p.Detail, ".") {
		t.Errorf("status %d, not %d: %s", a.status, status, a.body)
	}
	if location != "" && (len(p.Errors) == 0 || p.Errors[0].Location != location) {
		t.Errorf("no error at %q: %s", location, a.body)
	}
	return p
}

const newVMBody = `{"projectId":"PROJECT","name":"NAME","labels":{"env":"prod"},"description":"Front end","spec":{"cpus":2,"memoryMiB":512,"firmware":"bios","disks":[],"nics":[]}}`

func vmBody(project fleet.ProjectID, name string) string {
	return strings.NewReplacer("PROJECT", string(project), "NAME", name).Replace(newVMBody)
}
