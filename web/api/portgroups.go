package api

import (
	"context"

	"quantix/internal/fleet"
)

// PortGroupPath holds a network's id and the name of its port group, from the request's path.
type PortGroupPath struct {
	NetworkPath
	Group string `path:"group" maxLength:"32"`
}

type portGroupsOutput struct {
	Body struct {
		Items []fleet.PortGroupUse `json:"items"`
	}
}

func (api *API) listPortGroups(ctx context.Context, a fleet.Actor, in *NetworkPath) (*portGroupsOutput, error) {
	groups, err := api.Control.PortGroups(ctx, a, in.ID)
	out := &portGroupsOutput{}
	out.Body.Items = groups
	return out, err
}

// PortGroupBody is a port group without its name.
type PortGroupBody struct {
	Description string      `json:"description,omitempty"`
	VLAN        *fleet.VLAN `json:"vlan,omitempty" doc:"Refused if the network does not separate VLANs"`
	ToGuest     *fleet.Rate `json:"toGuest,omitempty" doc:"Incoming rate per NIC"`
	FromGuest   *fleet.Rate `json:"fromGuest,omitempty" doc:"Outgoing rate per NIC"`
	Restricted  bool        `json:"restricted,omitempty" doc:"Project members need a grant to use the port group"`

	SecurityGroups []fleet.SecurityGroupID `json:"securityGroups,omitempty" doc:"Default security groups for NICs without their own; omitted: none"`
	AntiSpoofing   *bool                   `json:"antiSpoofing,omitempty" doc:"Default for NICs without a setting; omitted: the default for the user who creates the NIC"`
}

type setPortGroupInput struct {
	PortGroupPath
	Body PortGroupBody
}

func (api *API) setPortGroup(ctx context.Context, a fleet.Actor, in *setPortGroupInput) (*pageOutput[fleet.Task], error) {
	b := in.Body
	g := fleet.PortGroup{
		Name: in.Group, Description: b.Description, VLAN: b.VLAN, ToGuest: b.ToGuest, FromGuest: b.FromGuest, Restricted: b.Restricted,
		SecurityGroups: b.SecurityGroups, AntiSpoofing: b.AntiSpoofing,
	}
	ids, err := api.Control.SetPortGroup(ctx, a, in.ID, g, false)
	return api.readTasks(ctx, a, ids, err)
}

func (api *API) deletePortGroup(ctx context.Context, a fleet.Actor, in *PortGroupPath) (*pageOutput[fleet.Task], error) {
	ids, err := api.Control.DropPortGroup(ctx, a, in.ID, in.Group)
	return api.readTasks(ctx, a, ids, err)
}

// PortGroupGrantPath identifies a port group and a project with access to the port group, from the request's path.
type PortGroupGrantPath struct {
	PortGroupPath
	Project string `path:"project"`
}

func (api *API) grantPortGroup(ctx context.Context, a fleet.Actor, in *PortGroupGrantPath) (*emptyOutput, error) {
	return nil, api.Control.GrantPortGroup(ctx, a, in.ID, in.Group, ParseGrantProjectID(in.Project))
}

func (api *API) revokePortGroup(ctx context.Context, a fleet.Actor, in *PortGroupGrantPath) (*emptyOutput, error) {
	return nil, api.Control.RevokePortGroup(ctx, a, in.ID, in.Group, ParseGrantProjectID(in.Project))
}
