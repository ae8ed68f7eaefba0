//go:build linux

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// api is a client of /api/v1 with a bearer token.
type api struct {
	url, token string
	via        *http.Client // client for the requests; nil: httpClient
	key        string       // Idempotency-Key of the requests; empty: none
}

// withIdempotencyKey returns a copy of the client that sends the key with its requests.
func (a api) withIdempotencyKey(key string) api {
	a.key = key
	return a
}

func (s *playground) api() api { return api{url: s.URL, token: s.APIToken} }

// apiResponse is a response of the API.
type apiResponse struct {
	status int
	body   []byte
}

var httpClient = &http.Client{Timeout: 15 * time.Second}

// send sends one request, without a body if body is nil.
func (a api) send(ctx context.Context, method, path string, body any) (apiResponse, error) {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return apiResponse{}, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, in)
	if err != nil {
		return apiResponse{}, err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/json")
	if a.key != "" {
		req.Header.Set("Idempotency-Key", a.key)
	}
	res, err := cmp.Or(a.via, httpClient).Do(req)
	if err != nil {
		return apiResponse{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return apiResponse{res.StatusCode, text}, err
}

// requestJSON sends a request, fails the test unless the status is want, and decodes the response into T.
func requestJSON[T any](t testing.TB, a api, want int, method, path string, body any) (out T) {
	t.Helper()
	got, err := a.send(t.Context(), method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if got.status != want {
		t.Fatalf("%s %s answered %d, want %d: %s", method, path, got.status, want, got.body)
	}
	if len(got.body) > 0 {
		if err := json.Unmarshal(got.body, &out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, got.body)
		}
	}
	return out
}

// listFirstPage returns the first page of a list.
func listFirstPage[T any](t testing.TB, a api, path string) []T {
	t.Helper()
	return requestJSON[fleet.Page[T]](t, a, http.StatusOK, http.MethodGet, path, nil).Items
}

// hostByName returns the host of the given name.
func (a api) hostByName(t testing.TB, name string) fleet.HostView {
	t.Helper()
	return findByName[fleet.HostView](t, a, "hosts", name)
}

func (a api) poolByName(t testing.TB, name string) fleet.Pool {
	t.Helper()
	return findByName[fleet.Pool](t, a, "pools", name)
}

// publishNetworks publishes the libvirt networks to all projects, so that forms propose the only one.
func (a api) publishNetworks(t testing.TB) {
	t.Helper()
	for _, n := range listFirstPage[fleet.NetworkView](t, a, "/api/v1/networks?filter=kind:libvirt") {
		if _, err := a.send(t.Context(), http.MethodPut, "/api/v1/networks/"+string(n.ID)+"/grants/all", nil); err != nil {
			t.Fatal(err)
		}
	}
}

func (a api) projectByName(t testing.TB, name string) fleet.Project {
	t.Helper()
	for _, p := range listFirstPage[fleet.Project](t, a, "/api/v1/projects") {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no project %s", name)
	return fleet.Project{}
}

func findByName[T any](t testing.TB, a api, resource, name string) T {
	t.Helper()
	items := listFirstPage[T](t, a, fmt.Sprintf("/api/v1/%s?filter=name:%s", resource, name))
	if len(items) != 1 {
		t.Fatalf("%d %s are named %s, want 1", len(items), resource, name)
	}
	return items[0]
}

// getVM returns the VM.
func (a api) getVM(t testing.TB, id fleet.VMID) fleet.VMView {
	t.Helper()
	return requestJSON[fleet.VMView](t, a, http.StatusOK, http.MethodGet, "/api/v1/vms/"+string(id), nil)
}

// ensurePhase starts the VM or forces it off unless it is in the phase want. An earlier run of the test may have left
// it in the other phase.
func (a api) ensurePhase(t testing.TB, id fleet.VMID, want fleet.Phase) {
	t.Helper()
	action := map[fleet.Phase]string{fleet.PhaseRunning: "start", fleet.PhaseStopped: "stop"}[want]
	if a.getVM(t, id).Phase != want {
		requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(id)+"/actions", map[string]any{"action": action})
	}
	a.waitPhase(t, stepLimit, id, want)
}

// waitPhase waits until a VM is in a phase, and returns it.
func (a api) waitPhase(t testing.TB, limit time.Duration, id fleet.VMID, want fleet.Phase) fleet.VMView {
	t.Helper()
	var vm fleet.VMView
	eventually(t, limit, fmt.Sprintf("phase %s of a VM", want), func() (bool, string) {
		vm = a.getVM(t, id)
		if vm.Status != nil && vm.Status.Error != "" {
			return false, vm.Status.Error
		}
		return vm.Phase == want, "it is " + string(vm.Phase)
	})
	return vm
}

// unusedVolume returns the name of a volume that nothing uses. It creates the volume if it is missing.
func (a api) unusedVolume(t testing.TB, pool fleet.Pool, name string) string {
	t.Helper()
	path := "/api/v1/pools/" + string(pool.ID) + "/volumes"
	got, err := a.send(t.Context(), http.MethodPost, path, map[string]any{"name": name, "format": "raw", "sizeBytes": 1 << 30, "full": true})
	if err != nil || got.status != http.StatusAccepted && got.status != http.StatusUnprocessableEntity {
		t.Fatalf("create a volume: %d %s %v", got.status, got.body, err)
	}
	eventually(t, stepLimit, "the volume "+name, func() (bool, string) {
		got, err := a.send(t.Context(), http.MethodGet, path, nil)
		return err == nil && strings.Contains(string(got.body), `"name":"`+name+`"`), string(got.body)
	})
	return name
}
