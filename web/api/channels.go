package api

import (
	"cmp"
	"context"

	"quantix/internal/channel"
	"quantix/internal/control/channels"
	"quantix/internal/fleet"
)

// ChannelPath holds the id of a channel, from the request's path.
type ChannelPath struct {
	ID channel.ID `path:"id"`
}

type channelOutput struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     channel.Channel
}

func channelAnswer(v channel.Channel, err error) (*channelOutput, error) {
	return &channelOutput{ETag: etag(v.Generation), Body: v}, err
}

type channelsOutput struct {
	Body struct {
		Items []channel.Channel `json:"items"`
	}
}

func (api *API) listChannels(ctx context.Context, a fleet.Actor, _ *struct{}) (*channelsOutput, error) {
	var out channelsOutput
	var err error
	out.Body.Items, err = api.Control.ListChannels(ctx, a)
	return &out, err
}

// newChannel holds the fields of a new channel.
type newChannel struct {
	Name      string          `json:"name"`
	ProjectID fleet.ProjectID `json:"projectId,omitempty" doc:"The channel sends alarms of this project's objects"`
	Personal  bool            `json:"personal,omitempty" doc:"The channel belongs to you, and sends the alarms that you may see"`
	Spec      channel.Spec    `json:"spec"`
}

func (api *API) createChannel(ctx context.Context, a fleet.Actor, in *bodyInput[newChannel]) (*channelOutput, error) {
	want := channels.ChannelInput{Name: in.Body.Name, ProjectID: in.Body.ProjectID, Spec: in.Body.Spec}
	if in.Body.Personal {
		want.UserID = a.UserID
	}
	v, err := api.Control.CreateChannel(ctx, a, want)
	out, err := channelAnswer(v, err)
	out.Location = Base + fleet.TypeChannel.Info().PagePath(string(v.ID))
	return out, err
}

func (api *API) getChannel(ctx context.Context, a fleet.Actor, in *ChannelPath) (*channelOutput, error) {
	return channelAnswer(api.Control.GetChannel(ctx, a, in.ID))
}

// channelEdit holds the editable fields of a channel, at the same JSON paths as in the channel.
type channelEdit struct {
	Name string       `json:"name"`
	Spec channel.Spec `json:"spec"`
}

type updateChannelInput struct {
	ChannelPath
	IfMatchHeader
	Body mergePatch[channelEdit]
}

func (api *API) updateChannel(ctx context.Context, a fleet.Actor, in *updateChannelInput) (*channelOutput, error) {
	return retryPatch(in.IfMatchHeader, func(wanted int64) (*channelOutput, error) {
		old, err := api.Control.GetChannel(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		to, err := in.Body.applyTo(channelEdit{old.Name, old.Spec})
		if err != nil {
			return nil, err
		}
		return channelAnswer(api.Control.UpdateChannel(ctx, a, in.ID, channels.ChannelInput{Name: to.Name, Spec: to.Spec, IfGeneration: cmp.Or(wanted, old.Generation)}))
	})
}

type deliveryOutput struct{ Body channel.Delivery }

func (api *API) testChannel(ctx context.Context, a fleet.Actor, in *ChannelPath) (*deliveryOutput, error) {
	v, err := api.Control.TestChannel(ctx, a, in.ID)
	return &deliveryOutput{v}, err
}

type deliveriesOutput struct {
	Body struct {
		Items []channel.Delivery `json:"items"`
	}
}

func (api *API) listDeliveries(ctx context.Context, a fleet.Actor, in *ChannelPath) (*deliveriesOutput, error) {
	var out deliveriesOutput
	var err error
	out.Body.Items, err = api.Control.ListDeliveries(ctx, a, in.ID)
	return &out, err
}
