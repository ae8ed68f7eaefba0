package agentapi

import (
	"encoding/json"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// aboutFilters is what the database says of the security groups that a job is about, or that the cards of its VM are in (work_of_filters).
type aboutFilters struct {
	Groups  []fleet.SecurityGroup              `json:"groups"`
	Members map[fleet.SecurityGroupID][]string `json:"members"`
}

// addFilters adds to a job the groups as its host needs them, with the addresses that their members have now.
func addFilters(w *wire.Work, row []byte) error {
	if len(row) == 0 {
		return nil
	}
	var about aboutFilters
	if err := json.Unmarshal(row, &about); err != nil {
		return err
	}
	flat := make([]fleet.FlatGroup, len(about.Groups))
	for i, g := range about.Groups {
		flat[i] = g.Flat(about.Members)
	}
	if w.Kind.Is().Type != fleet.TypeSecurityGroup {
		w.SecurityGroups = flat
		return nil
	}
	if len(flat) == 1 {
		w.SecurityGroup, w.Generation = &flat[0], flat[0].Revision
	}
	return nil
}
