// Package deviceclasses has the use cases of device classes, except their publication: see package publishing.
package deviceclasses

import (
	"context"
	"fmt"
	"strings"

	"quantix/db"
	"quantix/internal/control/publishing"
	"quantix/internal/control/store"
	"quantix/internal/deviceclass"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// DeviceClasses has the use cases of device classes.
type DeviceClasses struct{ store *store.Store }

// New returns the DeviceClasses in the store's database.
func New(s *store.Store) *DeviceClasses { return &DeviceClasses{s} }

// maxClasses limits the device classes of the fleet: lists and forms show all.
const maxClasses = 100

// DeviceClassChange is the input of UpdateDeviceClass.
type DeviceClassChange struct {
	deviceclass.ClassDefinition
	IfGeneration int64 // expected generation; 0: not checked
}

// CreateDeviceClass creates a device class that is published to nobody.
func (d *DeviceClasses) CreateDeviceClass(
	ctx context.Context, a fleet.Actor, in deviceclass.ClassDefinition,
) (deviceclass.DeviceClass, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return deviceclass.DeviceClass{}, err
	}
	var checks fleet.Checks
	in.Check(&checks)
	if err := checks.Err(); err != nil {
		return deviceclass.DeviceClass{}, err
	}
	id := fleet.NewID[fleet.DeviceClassID]()
	err := d.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.LockDeviceClassList(ctx); err != nil {
			return err
		}
		n, err := q.CountDeviceClasses(ctx)
		if err != nil {
			return err
		}
		if n >= maxClasses {
			return fleet.Errorf(fleet.Conflict, "There are %d device classes, which is the maximum. Delete some first.", n)
		}
		members, err := checkMembers(ctx, q, db.DeviceClass{}, nil, in.Members)
		if err != nil {
			return err
		}
		add := db.AddDeviceClassParams{ID: id, Name: in.Name, Description: in.Description, Gpu: members.gpu}
		if err := q.AddDeviceClass(ctx, add); err != nil {
			return nameTakenError(err, in.Name)
		}
		if err := members.store(ctx, q, id); err != nil {
			return err
		}
		return audit(ctx, q, a, "device-class.create", id, in.Name, members.text())
	})
	if err != nil {
		return deviceclass.DeviceClass{}, err
	}
	return d.GetDeviceClass(ctx, a, id)
}

func nameTakenError(err error, name string) error {
	const text = "A device class named %q exists already. Choose another name."
	return store.NameTakenError(err, "device_class_name_taken", text, name)
}

func audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, id fleet.DeviceClassID, name, detail string) error {
	return store.Audit(ctx, q, a, action, fleet.SubjectOf(fleet.TypeDeviceClass, id), name, detail)
}

// change calls do with the locked class, if the actor may change device classes.
func (d *DeviceClasses) change(
	ctx context.Context, a fleet.Actor, id fleet.DeviceClassID, do func(q *db.Queries, row db.DeviceClass) error,
) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(string(id), "device class"); err != nil {
		return err
	}
	return d.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.LockDeviceClassList(ctx); err != nil {
			return err
		}
		row, err := q.LockDeviceClass(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "device class")
		}
		return do(q, row)
	})
}

// UpdateDeviceClass replaces a class's name, description and members. A member that a VM uses cannot be removed.
func (d *DeviceClasses) UpdateDeviceClass(
	ctx context.Context, a fleet.Actor, id fleet.DeviceClassID, in DeviceClassChange,
) (deviceclass.DeviceClass, error) {
	err := d.change(ctx, a, id, func(q *db.Queries, row db.DeviceClass) error {
		var checks fleet.Checks
		in.Check(&checks)
		if err := checks.Err(); err != nil {
			return err
		}
		if in.IfGeneration != 0 && in.IfGeneration != row.Generation {
			return store.ChangedMeanwhileError("device class", row.Generation, in.IfGeneration)
		}
		if err := q.LockHostDevices(ctx); err != nil { // so that no VM gets a removed member
			return err
		}
		old, err := q.DevicesOfClasses(ctx, db.DevicesOfClassesParams{Classes: []string{string(id)}})
		if err != nil {
			return err
		}
		members, err := checkMembers(ctx, q, row, old, in.Members)
		if err != nil {
			return err
		}
		detail := changes(row, in.ClassDefinition, members)
		if detail == "" {
			return nil
		}
		to := db.ChangeDeviceClassParams{ID: id, Name: in.Name, Description: in.Description, Gpu: members.gpu}
		if err := q.ChangeDeviceClass(ctx, to); err != nil {
			return nameTakenError(err, in.Name)
		}
		if err := members.store(ctx, q, id); err != nil {
			return err
		}
		return audit(ctx, q, a, "device-class.edit", id, in.Name, detail)
	})
	if err != nil {
		return deviceclass.DeviceClass{}, err
	}
	return d.GetDeviceClass(ctx, a, id)
}

// changes describes the differences for the audit log; empty: none.
func changes(was db.DeviceClass, is deviceclass.ClassDefinition, members memberChange) string {
	var out []string
	if was.Name != is.Name {
		out = append(out, fmt.Sprintf("name %s → %s", was.Name, is.Name))
	}
	if was.Description != is.Description {
		out = append(out, "description")
	}
	if text := members.text(); text != "" {
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// DeleteDeviceClass deletes a class that no VM uses.
func (d *DeviceClasses) DeleteDeviceClass(ctx context.Context, a fleet.Actor, id fleet.DeviceClassID) error {
	return d.change(ctx, a, id, func(q *db.Queries, row db.DeviceClass) error {
		const named = 3
		users, err := q.VMsOfDeviceClass(ctx, db.VMsOfDeviceClassParams{ID: string(id), Most: named + 1})
		if err != nil {
			return err
		}
		if len(users) > 0 {
			var names []string
			for _, v := range users[:min(len(users), named)] {
				names = append(names, v.Name)
			}
			if len(users) > named {
				names = append(names, "others")
			}
			return fleet.Errorf(fleet.Conflict, "VMs use the device class: %s. Remove the class from these VMs first.", strings.Join(names, ", "))
		}
		if err := q.DeleteDeviceClass(ctx, id); err != nil {
			return err
		}
		return audit(ctx, q, a, "device-class.delete", id, row.Name, "")
	})
}

// ListDeviceClasses returns the classes that the actor may see, by name: those published to one of the actor's projects,
// or all if the actor sees the infrastructure. It leaves out members.
func (d *DeviceClasses) ListDeviceClasses(ctx context.Context, a fleet.Actor) ([]deviceclass.DeviceClass, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	out, err := d.read(ctx, a, "")
	if err == nil {
		err = d.count(ctx, out)
	}
	return out, store.UserError(err)
}

// count sets the total and free devices of classes, which it reads as sums, because lists and forms show many classes.
func (d *DeviceClasses) count(ctx context.Context, classes []deviceclass.DeviceClass) error {
	ids, at := make([]string, len(classes)), map[fleet.DeviceClassID]int{}
	for i, c := range classes {
		ids[i], at[c.ID] = string(c.ID), i
	}
	rows, err := d.store.CountDevicesOfClasses(ctx, ids)
	for _, r := range rows {
		classes[at[r.ClassID]].Total, classes[at[r.ClassID]].Free = int(r.Total), int(r.Free)
	}
	return err
}

// GetDeviceClass returns a class that the actor may see. Only actors who see hosts get its members.
func (d *DeviceClasses) GetDeviceClass(
	ctx context.Context, a fleet.Actor, id fleet.DeviceClassID,
) (deviceclass.DeviceClass, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return deviceclass.DeviceClass{}, err
	}
	if err := store.CheckID(string(id), "device class"); err != nil {
		return deviceclass.DeviceClass{}, err
	}
	all, err := d.read(ctx, a, id)
	if err == nil && len(all) == 0 {
		err = fleet.Errorf(fleet.NotFound, "There is no such device class, or you may not see it.")
	}
	if err != nil {
		return deviceclass.DeviceClass{}, store.UserError(err)
	}
	if store.SeesHosts(a) {
		err = d.addMembers(ctx, &all[0])
	} else {
		err = d.count(ctx, all)
	}
	return all[0], store.UserError(err)
}

// read reads the classes that the actor may see, without their devices; only the one with an ID if id is not empty.
func (d *DeviceClasses) read(ctx context.Context, a fleet.Actor, id fleet.DeviceClassID) ([]deviceclass.DeviceClass, error) {
	q := d.store.Queries
	rows, err := q.ListDeviceClasses(ctx, db.ListDeviceClassesParams{
		ID: string(id), AllClasses: store.SeesHosts(a), Projects: store.VisibleProjects(a),
	})
	if err != nil {
		return nil, err
	}
	out := make([]deviceclass.DeviceClass, len(rows))
	for i, r := range rows {
		out[i] = deviceclass.DeviceClass{
			ID: r.ID, Name: r.Name, Description: r.Description, GPU: r.Gpu, Generation: r.Generation, CreatedAt: r.CreatedAt,
			Grants: []fleet.ProjectGrant{},
		}
	}
	return out, publishing.FillDeviceClassGrants(ctx, q, a, id, out)
}

func memberFromRow(r db.DevicesOfClassesRow) deviceclass.ClassMemberStatus {
	return deviceclass.ClassMemberStatus{
		ClassMember: deviceclass.ClassMember{HostID: r.HostID, Device: r.Device}, HostName: r.HostName, Name: r.Name,
		Capacity: int(r.Capacity), Used: int(r.Used),
		State: deviceclass.StateOf(r.Reported, r.Usable, int(r.Capacity), int(r.Used)),
	}
}

// addMembers adds the members of a class, with the VMs that use them.
func (d *DeviceClasses) addMembers(ctx context.Context, c *deviceclass.DeviceClass) error {
	devices, err := d.store.DevicesOfClasses(ctx, db.DevicesOfClassesParams{Classes: []string{string(c.ID)}})
	if err != nil {
		return err
	}
	for _, r := range devices {
		c.Members = append(c.Members, memberFromRow(r))
	}
	c.Count(c.Members)
	users, err := d.store.UsersOfDevices(ctx, string(c.ID))
	if err != nil {
		return err
	}
	at := map[deviceclass.ClassMember]int{}
	for i, m := range c.Members {
		at[m.ClassMember] = i
	}
	for _, u := range users {
		if i, ok := at[deviceclass.ClassMember{HostID: u.HostID, Device: u.Device}]; ok {
			c.Members[i].VMs = append(c.Members[i].VMs, fleet.NamedVM{ID: u.ID, Name: u.Name})
		}
	}
	return nil
}
