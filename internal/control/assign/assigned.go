package assign

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// assignedObject is an object with the hosts that have it assigned. add appends the object to a host's list.
type assignedObject struct {
	hosts []string
	add   func(*wire.AssignedObjects)
}

// ReadAssignedObjects returns the objects that each host must report, by type and name. Hosts with equal assignments share the
// lists.
func ReadAssignedObjects(ctx context.Context, q *db.Queries) (map[fleet.HostID]wire.AssignedObjects, error) {
	var objects []assignedObject
	for _, typ := range assignableTypes {
		if typ.readAssigned == nil {
			continue
		}
		of, err := typ.readAssigned(ctx, q)
		if err != nil {
			return nil, err
		}
		objects = append(objects, of...)
	}
	type set struct { // linked list of objects; hosts with equal objects share it
		before *set
		object int
	}
	sets, at, lists := map[set]*set{}, map[string]*set{}, map[*set]wire.AssignedObjects{}
	for i, o := range objects {
		for _, host := range o.hosts {
			key := set{at[host], i}
			if sets[key] == nil {
				sets[key] = &key
				list := lists[key.before]
				o.add(&list)
				lists[&key] = list
			}
			at[host] = sets[key]
		}
	}
	out := make(map[fleet.HostID]wire.AssignedObjects, len(at))
	for host, s := range at {
		out[fleet.HostID(host)] = lists[s]
	}
	return out, nil
}

// appendClipped appends to a list that other hosts may share.
func appendClipped[T any](list []T, object T) []T { return append(slices.Clip(list), object) }
