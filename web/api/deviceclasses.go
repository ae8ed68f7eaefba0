package api

import (
	"cmp"
	"context"

	"quantix/internal/control/deviceclasses"
	"quantix/internal/deviceclass"
	"quantix/internal/fleet"
)

// DeviceClassPath holds the id of a device class, from the request's path.
type DeviceClassPath struct {
	ID fleet.DeviceClassID `path:"id"`
}

type deviceClassOutput struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     deviceclass.DeviceClass
}

func deviceClassAnswer(v deviceclass.DeviceClass, err error) (*deviceClassOutput, error) {
	return &deviceClassOutput{ETag: etag(v.Generation), Body: v}, err
}

func (api *API) listDeviceClasses(ctx context.Context, a fleet.Actor, _ *struct{}) (*pageOutput[deviceclass.DeviceClass], error) {
	return asSinglePage(api.Control.ListDeviceClasses(ctx, a))
}

func (api *API) createDeviceClass(
	ctx context.Context, a fleet.Actor, in *bodyInput[deviceclass.ClassDefinition],
) (*deviceClassOutput, error) {
	v, err := api.Control.CreateDeviceClass(ctx, a, in.Body)
	out, err := deviceClassAnswer(v, err)
	out.Location = Base + fleet.TypeDeviceClass.Info().PagePath(string(v.ID))
	return out, err
}

func (api *API) getDeviceClass(ctx context.Context, a fleet.Actor, in *DeviceClassPath) (*deviceClassOutput, error) {
	return deviceClassAnswer(api.Control.GetDeviceClass(ctx, a, in.ID))
}

type updateDeviceClassInput struct {
	DeviceClassPath
	IfMatchHeader
	Body mergePatch[deviceclass.ClassDefinition]
}

func (api *API) updateDeviceClass(ctx context.Context, a fleet.Actor, in *updateDeviceClassInput) (*deviceClassOutput, error) {
	return retryPatch(in.IfMatchHeader, func(wanted int64) (*deviceClassOutput, error) {
		old, err := api.Control.GetDeviceClass(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		to, err := in.Body.applyTo(old.Definition())
		if err != nil {
			return nil, err
		}
		change := deviceclasses.DeviceClassChange{ClassDefinition: to, IfGeneration: cmp.Or(wanted, old.Generation)}
		return deviceClassAnswer(api.Control.UpdateDeviceClass(ctx, a, in.ID, change))
	})
}

// DeviceClassGrantPath holds the ids of a device class and a project that may use the class, from the request's path.
type DeviceClassGrantPath struct {
	DeviceClassPath
	Project string `path:"project" doc:"ID of a project, or all"`
}

func (api *API) grantDeviceClass(ctx context.Context, a fleet.Actor, in *DeviceClassGrantPath) (*emptyOutput, error) {
	return nil, api.Control.GrantDeviceClass(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}

func (api *API) revokeDeviceClass(ctx context.Context, a fleet.Actor, in *DeviceClassGrantPath) (*emptyOutput, error) {
	return nil, api.Control.RevokeDeviceClass(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}
