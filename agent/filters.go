package agent

import (
	"context"
	"fmt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/wire"
)

// validateSecurityGroups validates security groups from the portal, because their values are written into definitions
// on the host.
func validateSecurityGroups(groups ...secgroup.FlatGroup) error {
	var c fleet.Checks
	for _, g := range groups {
		g.Check(&c)
	}
	if err := c.Err(); err != nil {
		return fmt.Errorf("the portal sent an invalid security group: %w", err)
	}
	return nil
}

// securityGroupHandler returns a handler that validates the job's security group and passes it to a hypervisor method.
func securityGroupHandler(call func(hypervisor.Firewall, context.Context, secgroup.FlatGroup) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if j.SecurityGroup == nil {
			return fmt.Errorf("the portal sent this job without its security group")
		}
		if err := validateSecurityGroups(*j.SecurityGroup); err != nil {
			return err
		}
		return call(a.hypervisor, ctx, *j.SecurityGroup)
	}
}

// addSecurityGroupStatus adds the group's state after the job to the job's result.
func addSecurityGroupStatus(_ context.Context, _ *Agent, j *job, out *wire.Finish) {
	if j.SecurityGroup != nil {
		out.SecurityGroup = &secgroup.Status{Active: out.Outcome == wire.Done, Error: out.Error, Rules: j.SecurityGroup.FilterRuleCount()}
	}
}
