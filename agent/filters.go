package agent

import (
	"context"
	"fmt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// checkGroups validates the portal's groups: they are written into definitions on the host.
func checkGroups(groups ...fleet.FlatGroup) error {
	var c fleet.Checks
	for _, g := range groups {
		g.Check(&c)
	}
	if err := c.Err(); err != nil {
		return fmt.Errorf("the portal sent a security group that this host does not take: %w", err)
	}
	return nil
}

// onSecurityGroup returns a handler that calls a hypervisor method with the job's valid security group.
func onSecurityGroup(call func(hypervisor.Firewall, context.Context, fleet.FlatGroup) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if j.SecurityGroup == nil {
			return fmt.Errorf("the portal sent this work without its security group")
		}
		if err := checkGroups(*j.SecurityGroup); err != nil {
			return err
		}
		return call(a.hypervisor, ctx, *j.SecurityGroup)
	}
}

// observeSecurityGroup adds the group's status after the job.
func observeSecurityGroup(_ context.Context, _ *Agent, j *job, out *wire.Finish) {
	if j.SecurityGroup != nil {
		out.SecurityGroup = &fleet.SecurityGroupStatus{Active: out.Outcome == wire.Done, Error: out.Error, Rules: j.SecurityGroup.Entries()}
	}
}
