package client

import (
	"context"
	"net/http"
	"time"

	"quantix/internal/fleet"
)

// NewProject is the request for a project.
type NewProject struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Member is a user's membership in a project.
type Member struct {
	UserID fleet.UserID `json:"userId"`
	Name   string       `json:"name"`
	Role   fleet.Role   `json:"role"`
}

// Projects returns one page of the projects that the user may see.
func (c *Client) Projects(ctx context.Context, q fleet.Query) (fleet.Page[fleet.Project], error) {
	return getPage[fleet.Project](ctx, c, q, "projects")
}

// Project returns one project.
func (c *Client) Project(ctx context.Context, id fleet.ProjectID) (fleet.Project, error) {
	return getObject[fleet.Project](ctx, c, "projects", string(id))
}

// CreateProject creates a project.
func (c *Client) CreateProject(ctx context.Context, in NewProject) (fleet.Project, error) {
	return changeObject[fleet.Project](ctx, c, http.MethodPost, in, "projects")
}

// UpdateProject changes a project.
func (c *Client) UpdateProject(ctx context.Context, id fleet.ProjectID, p Patch) (fleet.Project, error) {
	return changeObject[fleet.Project](ctx, c, http.MethodPatch, p, "projects", string(id))
}

// DeleteProject deletes an empty project.
func (c *Client) DeleteProject(ctx context.Context, id fleet.ProjectID) error {
	return c.send(ctx, http.MethodDelete, nil, "projects", string(id))
}

// Members returns a project's members.
func (c *Client) Members(ctx context.Context, id fleet.ProjectID) ([]Member, error) {
	page, err := getObject[fleet.Page[Member]](ctx, c, "projects", string(id), "members")
	return page.Items, err
}

// SetMember gives a user a role in a project: member or viewer.
func (c *Client) SetMember(ctx context.Context, id fleet.ProjectID, user fleet.UserID, role fleet.Role) error {
	return c.send(ctx, http.MethodPut, map[string]fleet.Role{"role": role}, "projects", string(id), "members", string(user))
}

// RemoveMember removes a user from a project.
func (c *Client) RemoveMember(ctx context.Context, id fleet.ProjectID, user fleet.UserID) error {
	return c.send(ctx, http.MethodDelete, nil, "projects", string(id), "members", string(user))
}

// NewUser is the request for a user.
type NewUser struct {
	Name     string     `json:"name"`
	Role     fleet.Role `json:"role"`
	Disabled bool       `json:"disabled"`
}

// Users returns one page of the users.
func (c *Client) Users(ctx context.Context, q fleet.Query) (fleet.Page[fleet.User], error) {
	return getPage[fleet.User](ctx, c, q, "users")
}

// Me returns the user of the client's token.
func (c *Client) Me(ctx context.Context) (fleet.User, error) { return c.User(ctx, "me") }

// User returns one user.
func (c *Client) User(ctx context.Context, id fleet.UserID) (fleet.User, error) {
	return getObject[fleet.User](ctx, c, "users", string(id))
}

// CreateUser creates a user and returns the password for the first sign-in.
func (c *Client) CreateUser(ctx context.Context, in NewUser) (user fleet.User, oneTimePassword string, err error) {
	made, err := changeObject[struct {
		fleet.User
		OneTimePassword string `json:"oneTimePassword"`
	}](ctx, c, http.MethodPost, in, "users")
	return made.User, made.OneTimePassword, err
}

// UpdateUser changes a user.
func (c *Client) UpdateUser(ctx context.Context, id fleet.UserID, p Patch) (fleet.User, error) {
	return changeObject[fleet.User](ctx, c, http.MethodPatch, p, "users", string(id))
}

// DeleteUser deletes a user.
func (c *Client) DeleteUser(ctx context.Context, id fleet.UserID) error {
	return c.send(ctx, http.MethodDelete, nil, "users", string(id))
}

// SetPassword sets a user's one-time password for the next sign-in.
func (c *Client) SetPassword(ctx context.Context, id fleet.UserID, password string) error {
	return c.send(ctx, http.MethodPut, map[string]string{"password": password}, "users", string(id), "password")
}

// Tokens returns one page of the API tokens of the client's user.
func (c *Client) Tokens(ctx context.Context, q fleet.Query) (fleet.Page[fleet.Token], error) {
	return getPage[fleet.Token](ctx, c, q, "tokens")
}

// CreateToken creates an API token that is valid for ttl; 0: it does not expire. Only this answer contains the token's
// secret.
func (c *Client) CreateToken(ctx context.Context, name string, ttl time.Duration) (fleet.Token, error) {
	in := map[string]string{"name": name}
	if ttl != 0 {
		in["ttl"] = ttl.String()
	}
	return changeObject[fleet.Token](ctx, c, http.MethodPost, in, "tokens")
}

// DeleteToken deletes an API token of the client's user.
func (c *Client) DeleteToken(ctx context.Context, id fleet.TokenID) error {
	return c.send(ctx, http.MethodDelete, nil, "tokens", string(id))
}

// JoinTokens returns one page of the join tokens.
func (c *Client) JoinTokens(ctx context.Context, q fleet.Query) (fleet.Page[fleet.JoinToken], error) {
	return getPage[fleet.JoinToken](ctx, c, q, "join-tokens")
}

// CreateJoinToken creates a join token. again is the host that joins again; empty: a new host. Only this answer
// contains the token's secret and command.
func (c *Client) CreateJoinToken(ctx context.Context, again fleet.HostID) (fleet.JoinToken, error) {
	return changeObject[fleet.JoinToken](ctx, c, http.MethodPost, map[string]fleet.HostID{"hostId": again}, "join-tokens")
}

// RevokeJoinToken revokes an unused join token.
func (c *Client) RevokeJoinToken(ctx context.Context, id fleet.JoinTokenID) error {
	return c.send(ctx, http.MethodDelete, nil, "join-tokens", string(id))
}
