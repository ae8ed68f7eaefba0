package agentapi

import (
	"encoding/json"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/wire"
)

// groupFilterData is the JSON of security groups from the SQL function work_of_filters: the group that is the job's
// subject, or the groups of the VM's NICs.
type groupFilterData struct {
	Groups  []secgroup.Group                   `json:"groups"`
	Members map[fleet.SecurityGroupID][]string `json:"members"`
}

// addSecurityGroupsToWork adds the security groups to a job in the form that hosts apply, with the members' current addresses.
func addSecurityGroupsToWork(w *wire.Work, row []byte) error {
	if len(row) == 0 {
		return nil
	}
	var data groupFilterData
	if err := json.Unmarshal(row, &data); err != nil {
		return err
	}
	flat := make([]secgroup.FlatGroup, len(data.Groups))
	for i, g := range data.Groups {
		flat[i] = g.Flatten(data.Members)
	}
	if w.Kind.Info().Type != fleet.TypeSecurityGroup {
		w.SecurityGroups = flat
		return nil
	}
	if len(flat) == 1 {
		w.SecurityGroup, w.Generation = &flat[0], flat[0].Revision
	}
	return nil
}
