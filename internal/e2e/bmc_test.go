//go:build linux

package e2e

import (
	"net/http"
	"testing"
	"time"

	"quantix/internal/bmc"
	"quantix/internal/fleet"
	"quantix/internal/testkit/mockbmc"
)

// addBMC gives the host a mock BMC in the mode, and waits until the portal has tried to read it.
func (a api) addBMC(t *testing.T, host fleet.HostID, mode mockbmc.Mode) *mockbmc.BMC {
	t.Helper()
	m, err := mockbmc.Start("127.0.0.1:0", mockbmc.IDRAC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	m.SetMode(mode)
	path := "/api/v1/hosts/" + string(host) + "/bmc"
	requestJSON[bmc.BMC](t, a, http.StatusOK, http.MethodPut, path, map[string]any{"address": m.Address, "user": mockbmc.User, "password": mockbmc.Password, "trust": "pin"})
	eventually(t, time.Minute, "the BMC is read", func() (bool, string) {
		b := requestJSON[bmc.BMC](t, a, http.StatusOK, http.MethodGet, path, nil)
		return !b.Checking, b.Error
	})
	return m
}
