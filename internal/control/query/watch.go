package query

import (
	"context"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// FollowedKey is a key that a page follows, such as "vms", and the wake-up keys to which it subscribes for that. An
// actor who sees only some projects gets wake-ups only for changes in these projects, because even the time of other
// changes is confidential.
type FollowedKey struct {
	Key     string
	WakeUps []string
}

// resourceTypeOfKey returns the resource type of a key, or a zero Resource if pages cannot follow the key. single reports
// whether the key names one object ("vm:<id>") instead of all ("vms").
func resourceTypeOfKey(key string) (t fleet.ResourceTypeInfo, single bool) {
	typ, _, single := strings.Cut(key, ":")
	if single {
		if t = fleet.ResourceType(typ).Info(); !t.FollowsOwnKey {
			t = fleet.ResourceTypeInfo{}
		}
	} else if t, _ = fleet.ResourceTypeByPlural(typ); t.AllKey == "" {
		t = fleet.ResourceTypeInfo{}
	}
	return t, single
}

// wakeUpKeys returns the wake-up keys to which the actor's page subscribes for a followed key. An actor who sees only
// some projects gets none for resources without a project; the actor's pages poll instead.
func wakeUpKeys(a fleet.Actor, key string, t fleet.ResourceTypeInfo, one bool) []string {
	sees := policy.SeesAllProjects(a)
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
func (b *Queries) WatchKeys(ctx context.Context, a fleet.Actor, keys []string) ([]FollowedKey, error) {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return nil, err
	}
	seen, err := b.visibleWatchKeys(ctx, a, keys)
	if err != nil {
		return nil, err
	}
	followed := make([]FollowedKey, 0, len(keys))
	for _, key := range keys {
		t, one := resourceTypeOfKey(key)
		ofProject := one && t.ProjectKeyPrefix != ""
		if t.Key != "" && policy.May(a, t.See, "") && (!ofProject || seen == nil || seen[key]) {
			followed = append(followed, FollowedKey{key, wakeUpKeys(a, key, t, one)})
		}
	}
	return followed, nil
}

// visibleWatchKeys returns those keys of single VMs and tasks whose object the actor sees, or nil if the actor sees
// all.
func (b *Queries) visibleWatchKeys(ctx context.Context, a fleet.Actor, keys []string) (map[string]bool, error) {
	if policy.SeesAllProjects(a) {
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
