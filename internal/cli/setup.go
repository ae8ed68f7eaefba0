package cli

import (
	"context"
	"fmt"
	"time"

	"quantix/internal/auth"
	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

// fleetSetup fills the portal of a demo or a lab as an administrator, through the same control API that users use.
type fleetSetup struct {
	*portal
	actor     fleet.Actor
	startedAt time.Time // start of this run, before any agent starts
}

// newSetup returns a setup that acts as the first administrator. If the administrator never used the one-time password,
// newSetup sets a new one.
func newSetup(ctx context.Context, p *portal) (*fleetSetup, error) {
	admins, err := p.Control.ListUsers(ctx, fleet.SystemActor, fleet.Query{Filter: "role:" + string(fleet.RoleAdmin), Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(admins.Items) == 0 {
		return nil, fmt.Errorf("there is no administrator")
	}
	u := admins.Items[0]
	if p.Password == "" && u.MustChangePassword { // an earlier start printed a one-time password that is unused and may be lost
		p.Password = auth.NewPassword()
		if err := p.Control.SetPassword(ctx, fleet.SystemActor, u.ID, p.Password); err != nil {
			return nil, fmt.Errorf("make a new one-time password: %w", err)
		}
	}
	return &fleetSetup{p, fleet.Actor{UserID: u.ID, Name: u.Name, Role: u.Role}, time.Now()}, nil
}

// readyReport creates an API token and returns what a user needs to begin.
func (s *fleetSetup) readyReport(ctx context.Context, hosts []readyHost) (readyReport, error) {
	token, err := s.Control.CreateToken(ctx, s.actor, "started with the portal", 30*24*time.Hour)
	if err != nil {
		return readyReport{}, fmt.Errorf("make an API token: %w", err)
	}
	r := readyReport{URL: s.URL, User: s.actor.Name, Password: s.Password, APIToken: token.Secret, Hosts: hosts}
	if r.Password == "" {
		r.Password = passwordPlaceholder
	}
	return r, nil
}

// publishToAll publishes the pools, and the libvirt networks that stay within a host, to all projects.
func (s *fleetSetup) publishToAll(ctx context.Context, pools ...fleet.PoolID) error {
	for _, id := range pools {
		if err := s.Control.GrantPool(ctx, s.actor, id, ""); err != nil {
			return fmt.Errorf("publish a pool: %w", err)
		}
	}
	networks, err := query.ReadAllPages(ctx, s.actor, fleet.Query{}, s.Control.ListNetworks)
	if err != nil {
		return err
	}
	for _, n := range networks {
		if n.Kind != fleet.NetworkLibvirt || n.Spec != nil && n.Spec.Mode.Info().External {
			continue
		}
		if err := s.Control.GrantNetwork(ctx, s.actor, n.ID, ""); err != nil {
			return fmt.Errorf("publish the network %s: %w", n.Name, err)
		}
	}
	return nil
}

// ensureProject returns the ID of the named project, and creates the project if it is missing.
func (s *fleetSetup) ensureProject(ctx context.Context, name, description string) (fleet.ProjectID, error) {
	projects, err := query.ReadAllPages(ctx, s.actor, fleet.Query{}, s.Control.ListProjects)
	if err != nil {
		return "", err
	}
	for _, p := range projects {
		if p.Name == name {
			return p.ID, nil
		}
	}
	p, err := s.Control.CreateProject(ctx, s.actor, identity.ProjectInput{Name: name, Description: description})
	return p.ID, err
}

// waitFor polls until done returns true or an error. what describes the awaited state in the error after a timeout.
func waitFor(ctx context.Context, what string, done func() (bool, error)) error {
	limit, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		select {
		case <-tick.C:
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s did not happen within %s", what, settleTime)
		}
	}
}

// waitHosts waits until every host has sent a report in this run. Shortly after a restart, a host still counts as
// online from the previous run.
func (s *fleetSetup) waitHosts(ctx context.Context, ids []fleet.HostID) error {
	for _, id := range ids {
		err := waitFor(ctx, "the first report of a host", func() (bool, error) {
			h, err := s.Control.GetHost(ctx, s.actor, id)
			return err == nil && h.Phase == fleet.HostOnline && h.SeenAt.After(s.startedAt), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *fleetSetup) waitPool(ctx context.Context, id fleet.PoolID, healthy int) error {
	return waitFor(ctx, "a pool's start", func() (bool, error) {
		p, err := s.Control.GetPool(ctx, s.actor, id)
		return err == nil && p.Health.Healthy >= healthy, err
	})
}

// hostID returns the ID of the joined host with that name, and whether the host exists.
func (s *fleetSetup) hostID(ctx context.Context, name string) (fleet.HostID, bool, error) {
	page, err := s.Control.ListHosts(ctx, s.actor, fleet.Query{Filter: "name:" + name})
	if err != nil {
		return "", false, err
	}
	for _, h := range page.Items {
		if h.Name == name {
			return h.ID, true, nil
		}
	}
	return "", false, nil
}
