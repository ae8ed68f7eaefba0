package api

import (
	"context"

	"quantix/internal/control/identity"
	"quantix/internal/fleet"
)

// UserPath holds the id of a user, from the request's path.
type UserPath struct {
	ID fleet.UserID `path:"id"`
}

type userOutput struct {
	Body struct {
		fleet.User
		OfferedActions
	}
}

func userAnswer(a fleet.Actor, u fleet.User) *userOutput {
	var out userOutput
	out.Body.User, out.Body.OfferedActions = u, offeredActions(a, "user", u.ActionsBy(a.UserID))
	return &out
}

type newUserOutput struct {
	Location string `header:"Location"`
	Body     newUser
}

type newUser struct {
	fleet.User
	OneTimePassword string `json:"oneTimePassword"`
}

func (api *API) createUser(ctx context.Context, a fleet.Actor, in *struct{ Body identity.UserInput }) (*newUserOutput, error) {
	u, password, err := api.Control.CreateUser(ctx, a, in.Body)
	return &newUserOutput{Base + "/users/" + string(u.ID), newUser{u, password}}, err
}

func (api *API) getUser(ctx context.Context, a fleet.Actor, in *UserPath) (*userOutput, error) {
	if in.ID == "me" {
		in.ID = a.UserID
	}
	u, err := api.Control.GetUser(ctx, a, in.ID)
	return userAnswer(a, u), err
}

type updateUserInput struct {
	UserPath
	Body mergePatch[identity.UserInput]
}

func (api *API) updateUser(ctx context.Context, a fleet.Actor, in *updateUserInput) (*userOutput, error) {
	old, err := api.Control.GetUser(ctx, a, in.ID)
	if err != nil {
		return nil, err
	}
	to, err := in.Body.applyTo(identity.UserInput{Name: old.Name, Role: old.Role, Disabled: old.Disabled})
	if err != nil {
		return nil, err
	}
	u, err := api.Control.UpdateUser(ctx, a, in.ID, to)
	return userAnswer(a, u), err
}

type passwordInput struct {
	UserPath
	Body struct {
		Password string `json:"password" doc:"One-time password, which the user must change at the next sign-in"`
	}
}

func (api *API) setPassword(ctx context.Context, a fleet.Actor, in *passwordInput) (*emptyOutput, error) {
	return nil, api.Control.SetPassword(ctx, a, in.ID, in.Body.Password)
}
