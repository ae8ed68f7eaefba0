package web

import (
	"context"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"
)

type leaveForm struct {
	To         string `form:"to"` // "<host>/<pool>"
	Rate       string `form:"rate"`
	Overcommit string `form:"overcommit"`
}

func (s *Server) askLeave(c echo.Context, a fleet.Actor, in leaveForm, how asked) error {
	ctx := c.Request().Context()
	p, err := s.vmOf(c, a, "")
	if err != nil {
		return err
	}
	out := vmview.LeavePage{VM: p.VM, Errors: how.errors, In: vmview.LeaveForm{To: in.To, Rate: in.Rate, Overcommit: in.Overcommit != ""}}
	moving, err := s.Control.MovingDisks(ctx, a, p.VM.ID)
	if err != nil {
		return err
	}
	leaving, err := s.Control.LeavingVM(ctx, a, p.VM.ID)
	if err != nil {
		return err
	}
	if _, out.Why = p.VM.AllowsLeave(moving, leaving); out.Why == "" {
		if out.Targets, err = s.Control.LeaveTargets(ctx, a, p.VM.ID); err != nil {
			return err
		}
		targets := pick{
			noun: "leave-targets", of: string(p.VM.ID), now: []string{in.To}, page: views.VMPath(p.VM.ID, "leave"), all: c.QueryParam("all") != "", targets: out.Targets,
		}
		if out.To, err = s.choose(ctx, a, targets); err != nil {
			return err
		}
	}
	return s.showAs(c, how.status, a, vmFrame(p.VM), vmview.Leave(out))
}

// leaveOptions are the hosts and pools that the VM c.of can go to.
func (s *Server) leaveOptions(ctx context.Context, a fleet.Actor, c pick) (out []kit.Option, err error) {
	if c.targets == nil {
		c.targets, err = s.Control.LeaveTargets(ctx, a, fleet.VMID(c.of))
	}
	return vmview.LeaveOptions(c.targets), err
}

func (s *Server) leaveVM(c echo.Context, a fleet.Actor, in leaveForm) (end, error) {
	var checks fleet.Checks
	host, pool, _ := strings.Cut(in.To, "/")
	order := control.LeaveVM{HostID: fleet.HostID(host), PoolID: fleet.PoolID(pool), RateBytes: read(&checks, "rateBytes", in.Rate, rateOf), Overcommit: in.Overcommit != ""}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	id := fleet.VMID(c.Param("id"))
	t, err := s.Control.LeaveVM(c.Request().Context(), a, id, order)
	return stay(views.VMPath(id), t.Title()+" "+t.SubjectName+": asked of "+t.HostName+"."), err
}

type leaveInput struct {
	VMPath
	Body control.LeaveVM
}

func (s *Server) apiLeaveVM(ctx context.Context, a fleet.Actor, in *leaveInput) (*taskOutput, error) {
	task, err := s.Control.LeaveVM(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}

type leaveTargetsOutput struct {
	Body struct {
		Items []fleet.LeaveTarget `json:"items"`
	}
}

func (s *Server) apiLeaveTargets(ctx context.Context, a fleet.Actor, in *VMPath) (*leaveTargetsOutput, error) {
	out := &leaveTargetsOutput{}
	var err error
	out.Body.Items, err = s.Control.LeaveTargets(ctx, a, in.ID)
	return out, err
}
