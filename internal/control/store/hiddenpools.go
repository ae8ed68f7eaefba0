package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/fleet"
)

// Tenants do not see pools that are published to none of their projects, but their VMs may have disks there. Use cases
// give them another ID in place of the pool's own. It is the same in all answers, so that clients can send it back.

// HiddenPoolID returns the ID that stands for a pool in answers to users who may not see the pool.
func HiddenPoolID(id fleet.PoolID) fleet.PoolID {
	h := sha256.Sum256([]byte("hidden pool " + string(id)))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8: defined by the application
	return fleet.PoolID(fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16]))
}

// HiddenPools returns the pools among ids that the actor may not see.
func (s *Store) HiddenPools(ctx context.Context, a fleet.Actor, ids []fleet.PoolID) (map[fleet.PoolID]bool, error) {
	out := map[fleet.PoolID]bool{}
	ids = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(ids))), func(id fleet.PoolID) bool { return id == "" })
	if SeesHosts(a) || len(ids) == 0 {
		return out, nil
	}
	rows, err := s.PoolsUnpublished(ctx, db.PoolsUnpublishedParams{Ids: ToStrings(ids), Projects: VisibleProjects(a)})
	for _, id := range rows {
		out[fleet.PoolID(id)] = true
	}
	return out, UserError(err)
}

// HidePools replaces the IDs of pools that the actor may not see, in VMs that are redacted already. It also names the
// device classes that the actor may see.
func (s *Store) HidePools(ctx context.Context, a fleet.Actor, vms []fleet.VMView) error {
	specs := make([]*fleet.VMSpec, len(vms))
	for i := range vms {
		specs[i] = &vms[i].Spec
	}
	if err := NameDeviceClasses(ctx, s.Queries, a, specs...); err != nil {
		return err
	}
	if SeesHosts(a) {
		return nil
	}
	var ids []fleet.PoolID
	var texts []*string
	for i, v := range vms {
		ids = append(ids, poolsOf(v)...)
		if v.Status != nil {
			status := *v.Status
			vms[i].Status = &status
			texts = append(texts, &status.Error, &status.Reason)
		}
	}
	if err := s.HidePoolNames(ctx, a, texts...); err != nil {
		return err
	}
	hidden, err := s.HiddenPools(ctx, a, ids)
	if err != nil || len(hidden) == 0 {
		return err
	}
	for i, v := range vms {
		var swaps []string
		for _, id := range poolsOf(v) {
			if hidden[id] {
				swaps = append(swaps, string(id), string(HiddenPoolID(id)))
			}
		}
		spec, err := swapped(v.Spec, swaps)
		if err != nil {
			return err
		}
		status, err := swapped(v.Status, swaps)
		if err != nil {
			return err
		}
		vms[i].Spec, vms[i].Status = spec, status
	}
	return nil
}

// RevealPools replaces the IDs of HidePools in a request about a VM by the pools' own IDs.
func RevealPools[T any](a fleet.Actor, vm fleet.VMView, in T) (T, error) {
	if SeesHosts(a) {
		return in, nil
	}
	var swaps []string
	for _, id := range poolsOf(vm) {
		swaps = append(swaps, string(HiddenPoolID(id)), string(id))
	}
	return swapped(in, swaps)
}

// poolsOf returns the pools that the VM's definition and its last report name.
func poolsOf(v fleet.VMView) (ids []fleet.PoolID) {
	add := func(refs ...*fleet.Volref) {
		for _, r := range refs {
			if r != nil {
				ids = append(ids, r.PoolID)
			}
		}
	}
	for _, d := range v.Spec.Disks {
		ids = append(ids, d.PoolID)
		add(d.Image)
	}
	add(v.Spec.ISO)
	for _, d := range v.Spec.Drives {
		add(d.Medium)
	}
	if v.Status != nil {
		for _, d := range v.Status.Disks {
			add(d.Volume)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// swapped returns a copy of v with the texts replaced, if it has one of them. swaps has pairs: old, new.
func swapped[T any](v T, swaps []string) (T, error) {
	if len(swaps) == 0 {
		return v, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	after := strings.NewReplacer(swaps...).Replace(string(text))
	if after == string(text) {
		return v, nil
	}
	var out T
	return out, json.Unmarshal([]byte(after), &out)
}

// HidePoolNames replaces the names of pools that the actor may not see in error texts of hosts.
func (s *Store) HidePoolNames(ctx context.Context, a fleet.Actor, texts ...*string) error {
	if SeesHosts(a) {
		return nil
	}
	var filled []string
	for _, t := range texts {
		if *t != "" {
			filled = append(filled, *t)
		}
	}
	if len(filled) == 0 {
		return nil
	}
	names, err := s.UnpublishedPoolNamesIn(ctx, db.UnpublishedPoolNamesInParams{Texts: filled, Projects: VisibleProjects(a)})
	if err != nil {
		return UserError(err)
	}
	for _, t := range texts {
		*t = fleet.RedactNames(*t, names...)
	}
	return nil
}

// HidePoolsOfTasks replaces the names of pools that the actor may not see, in tasks that are redacted already.
func (s *Store) HidePoolsOfTasks(ctx context.Context, a fleet.Actor, tasks ...*fleet.Task) error {
	texts := make([]*string, 0, 2*len(tasks))
	for _, t := range tasks {
		texts = append(texts, &t.Error, &t.Note)
	}
	return s.HidePoolNames(ctx, a, texts...)
}
