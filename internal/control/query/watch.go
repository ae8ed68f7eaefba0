package query

import (
	"context"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Watched is a wake-up key that a page follows, and the keys that wake it. For actors who see only some projects, only
// changes in their own projects wake a fleet-wide key: the timing of changes in other projects must not leak.
type Watched struct {
	Key     string
	WakeUps []string
}

// watchedType returns the resource type of a key. one is true if the key names one object ("vm:<id>") and false if it
// names all ("vms"). The resource is empty if pages cannot follow the key.
func watchedType(key string) (t fleet.Resource, one bool) {
	typ, _, one := strings.Cut(key, ":")
	if one {
		if t = fleet.ResourceType(typ).Info(); !t.FollowsOwnKey {
			t = fleet.Resource{}
		}
	} else if t, _ = fleet.ResourceByPlural(typ); t.AllKey == "" {
		t = fleet.Resource{}
	}
	return t, one
}

// wakeUpKeys returns the keys that wake a followed key for the actor. Resources without a project do not wake actors
// who see only some projects: their pages poll instead.
func wakeUpKeys(a fleet.Actor, key string, t fleet.Resource, one bool) []string {
	sees := policy.AllProjects(a)
	switch {
	case one && (sees || t.ProjectKeyPrefix != ""):
		return []string{key}
	case one:
		return []string{}
	case sees:
		return []string{t.AllKey}
	}
	ids := []string{}
	if t.ProjectKeyPrefix != "" {
		for _, id := range store.VisibleProjects(a) {
			ids = append(ids, t.ProjectKeyPrefix+id)
		}
	}
	return ids
}

// WatchKeys returns the keys that the actor may follow, in the given order. It omits forbidden keys without an error,
// so that they look like keys of objects that do not exist.
func (b *Queries) WatchKeys(ctx context.Context, a fleet.Actor, keys []string) ([]Watched, error) {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return nil, err
	}
	seen, err := b.visibleWatchKeys(ctx, a, keys)
	if err != nil {
		return nil, err
	}
	totalsCache := make([]Watched, 0, len(keys))
	for _, key := range keys {
		t, one := watchedType(key)
		ofProject := one && t.ProjectKeyPrefix != ""
		if t.Key != "" && policy.May(a, t.See, "") && (!ofProject || seen == nil || seen[key]) {
			totalsCache = append(totalsCache, Watched{key, wakeUpKeys(a, key, t, one)})
		}
	}
	return totalsCache, nil
}

// visibleWatchKeys returns which keys of single VMs and tasks the actor sees, or nil if the actor sees all.
func (b *Queries) visibleWatchKeys(ctx context.Context, a fleet.Actor, keys []string) (map[string]bool, error) {
	if policy.AllProjects(a) {
		return nil, nil
	}
	ids := map[string][]string{}
	for _, key := range keys {
		if typ, id, _ := strings.Cut(key, ":"); fleet.IsID(id) {
			ids[typ] = append(ids[typ], id)
		}
	}
	seen := map[string]bool{}
	if len(ids["vm"]) > 0 {
		vms, err := b.store.VMsSeen(ctx, db.VMsSeenParams{Ids: ids["vm"], Projects: store.VisibleProjects(a)})
		if err != nil {
			return nil, store.UserError(err)
		}
		for _, id := range vms {
			seen[string(fleet.SubjectVM(id))] = true
		}
	}
	if len(ids["task"]) > 0 {
		tasks, err := b.store.TasksSeen(ctx, db.TasksSeenParams{Ids: ids["task"], Projects: store.VisibleProjects(a), Own: store.ActorUserID(a)})
		if err != nil {
			return nil, store.UserError(err)
		}
		for _, id := range tasks {
			seen[string(fleet.SubjectTask(id))] = true
		}
	}
	return seen, nil
}
