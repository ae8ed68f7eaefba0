package api

import (
	"context"
	"time"

	"quantix/internal/fleet"
)

type tokenOutput struct {
	Body fleet.Token
}

type createTokenInput struct {
	Body struct {
		Name string `json:"name"`
		TTL  string `json:"ttl,omitempty" doc:"Lifetime, such as \"720h\"; omitted: no expiry. A token created with another token expires with that one at the latest"`
	}
}

func (api *API) createToken(ctx context.Context, a fleet.Actor, in *createTokenInput) (*tokenOutput, error) {
	var ttl time.Duration
	if in.Body.TTL != "" {
		var err error
		if ttl, err = time.ParseDuration(in.Body.TTL); err != nil || ttl <= 0 {
			var c fleet.Checks
			c.Add("ttl", "Write the token's lifetime in hours: \"720h\".")
			return nil, c.Err()
		}
	}
	t, err := api.Control.CreateToken(ctx, a, in.Body.Name, ttl)
	return &tokenOutput{t}, err
}

type joinTokenOutput struct{ Body fleet.JoinToken }

type createJoinTokenInput struct {
	Body *struct {
		HostID fleet.HostID `json:"hostId,omitempty" doc:"The host that joins again; omitted: a new host"`
	}
}

func (api *API) createJoinToken(ctx context.Context, a fleet.Actor, in *createJoinTokenInput) (*joinTokenOutput, error) {
	var again fleet.HostID
	if in.Body != nil {
		again = in.Body.HostID
	}
	t, err := api.Control.CreateJoinToken(ctx, a, again)
	return &joinTokenOutput{t}, err
}
