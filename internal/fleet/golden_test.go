package fleet_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/golden"
)

func TestJSONFieldsKeepTheirNames(t *testing.T) {
	t.Parallel()
	golden.Types(
		t, "testdata/types.json",
		fleet.VMView{}, fleet.DiscoveredVM{}, fleet.ActionState{},
		fleet.HostView{}, fleet.HostMeter{}, fleet.JoinToken{}, fleet.ClusterView{},
		fleet.PoolView{}, fleet.NetworkView{},
		fleet.Task{}, fleet.JobArgs{}, fleet.Project{}, fleet.User{}, fleet.Token{},
		fleet.AuditEntry{}, fleet.SearchHit{}, fleet.Overview{}, fleet.FieldError{},
	)
}
