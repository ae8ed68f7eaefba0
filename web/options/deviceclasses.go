package options

import (
	"context"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
)

// deviceClassOptions lists the device classes that VMs of project c.ParentID may use, with their free devices; all that
// the actor may see if c.ParentID is empty.
func (r *Reader) deviceClassOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	all, err := r.Control.ListDeviceClasses(ctx, a)
	var out []kit.Option
	for _, v := range all {
		usable := policy.May(a, policy.InfraChange, "") || c.ParentID == "" || fleet.GrantedTo(fleet.ProjectID(c.ParentID), v.Grants)
		if usable {
			out = append(out, kit.Option{Value: string(v.ID), Text: v.Name + " · " + v.FreeText()})
		}
	}
	return out, err
}

// deviceClassGrantOptions lists the projects that device class c.ParentID is not published to; none if the class is
// published to all.
func (r *Reader) deviceClassGrantOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	v, err := r.Control.GetDeviceClass(ctx, a, fleet.DeviceClassID(c.ParentID))
	if err != nil {
		return nil, err
	}
	return r.grantOptions(ctx, a, c, v.Grants)
}
