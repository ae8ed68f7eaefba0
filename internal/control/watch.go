package control

import (
	"context"
	"strings"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// watchRights are what it takes to hear of a noun, by key or by the part of a key before the colon.
var watchRights = map[string]policy.Right{
	"vm": policy.VMSee, "vms": policy.VMSee,
	"host": policy.InfraSee, "hosts": policy.InfraSee,
	"pool": policy.StorageSee, "pools": policy.StorageSee,
	"net": policy.StorageSee, "networks": policy.StorageSee,
	"tasks": policy.TasksSee, "projects": policy.VMSee,
}

// WatchKeys keeps those of the wake-up keys that the actor may hear of, in their order. A key without rights is left out
// silently, exactly as one that does not exist would never wake anybody.
func (c *Control) WatchKeys(ctx context.Context, a fleet.Actor, keys []string) ([]string, error) {
	if err := policy.Check(a, policy.Self, ""); err != nil {
		return nil, err
	}
	seen, err := c.vmsSeen(ctx, a, keys)
	if err != nil {
		return nil, err
	}
	kept := make([]string, 0, len(keys))
	for _, key := range keys {
		noun, id, _ := strings.Cut(key, ":")
		right, known := watchRights[noun]
		if known && policy.May(a, right, "") && (noun != "vm" || seen == nil || seen[id]) {
			kept = append(kept, key)
		}
	}
	return kept, nil
}

// vmsSeen says which of the VMs among the keys the actor sees; nil: all.
func (c *Control) vmsSeen(ctx context.Context, a fleet.Actor, keys []string) (map[string]bool, error) {
	if policy.AllProjects(a) {
		return nil, nil
	}
	var ids []string
	for _, key := range keys {
		if id, ok := strings.CutPrefix(key, "vm:"); ok && fleet.IsID(id) {
			ids = append(ids, id)
		}
	}
	seen := map[string]bool{}
	if len(ids) == 0 {
		return seen, nil
	}
	rows, err := c.q.VMsSeen(ctx, db.VMsSeenParams{Ids: ids, Projects: projectsOf(a)})
	for _, id := range rows {
		seen[string(id)] = true
	}
	return seen, dbError(err)
}
