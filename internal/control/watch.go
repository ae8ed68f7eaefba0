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
	"task": policy.TasksSee, "tasks": policy.TasksSee, "projects": policy.VMSee,
}

// Watched is a key that a page follows, and what wakes it. A key of the whole fleet is woken by what is the actor's own where the
// actor sees some projects only: by when others' things change, their work could be timed.
type Watched struct {
	Key     string
	WakeUps []string
}

// everything are the keys for all of a kind, with the wake-ups that they mean to who sees all projects.
var everything = map[string]string{"vms": "vm:*", "hosts": "host:*", "pools": "pool:*", "networks": "net:*", "tasks": "tasks", "projects": "projects"}

// ofProject are the same to who sees some: a wake-up for each project. What belongs to no project does not wake them; their
// pages look again by themselves.
var ofProject = map[string]string{"vms": "vms:", "tasks": "tasks:", "projects": "project:"}

// wakeUps are what wakes the key for the actor.
func wakeUps(a fleet.Actor, key string) []string {
	noun, _, one := strings.Cut(key, ":")
	if policy.AllProjects(a) || one && (noun == "vm" || noun == "task") {
		if all, ok := everything[key]; ok {
			return []string{all}
		}
		return []string{key}
	}
	ids := []string{}
	if prefix, ok := ofProject[noun]; ok && !one {
		for _, id := range projectsOf(a) {
			ids = append(ids, prefix+id)
		}
	}
	return ids
}

// WatchKeys keeps those of the keys that the actor may hear of, in their order. A key without rights is left out silently,
// exactly as one that does not exist would never wake anybody.
func (c *Control) WatchKeys(ctx context.Context, a fleet.Actor, keys []string) ([]Watched, error) {
	if err := policy.Check(a, policy.Self, ""); err != nil {
		return nil, err
	}
	seen, err := c.objectsSeen(ctx, a, keys)
	if err != nil {
		return nil, err
	}
	kept := make([]Watched, 0, len(keys))
	for _, key := range keys {
		noun, _, one := strings.Cut(key, ":")
		right, known := watchRights[noun]
		own := one && (noun == "vm" || noun == "task") // of a project
		if known && policy.May(a, right, "") && (!own || seen == nil || seen[key]) {
			kept = append(kept, Watched{key, wakeUps(a, key)})
		}
	}
	return kept, nil
}

// objectsSeen says which of the VMs and tasks among the keys the actor sees; nil: all.
func (c *Control) objectsSeen(ctx context.Context, a fleet.Actor, keys []string) (map[string]bool, error) {
	if policy.AllProjects(a) {
		return nil, nil
	}
	ids := map[string][]string{}
	for _, key := range keys {
		if noun, id, _ := strings.Cut(key, ":"); fleet.IsID(id) {
			ids[noun] = append(ids[noun], id)
		}
	}
	seen := map[string]bool{}
	if len(ids["vm"]) > 0 {
		vms, err := c.q.VMsSeen(ctx, db.VMsSeenParams{Ids: ids["vm"], Projects: projectsOf(a)})
		if err != nil {
			return nil, dbError(err)
		}
		for _, id := range vms {
			seen[string(fleet.SubjectVM(id))] = true
		}
	}
	if len(ids["task"]) > 0 {
		tasks, err := c.q.TasksSeen(ctx, db.TasksSeenParams{Ids: ids["task"], Projects: projectsOf(a), Own: userIDOf(a)})
		if err != nil {
			return nil, dbError(err)
		}
		for _, id := range tasks {
			seen[string(fleet.SubjectTask(id))] = true
		}
	}
	return seen, nil
}
