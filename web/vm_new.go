package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

func (s *Server) newVM(c echo.Context, a fleet.Actor) error {
	typed := url.Values{
		"key": {fleet.NewID[string]()}, "projectId": {c.QueryParam("project")}, "hostId": {c.QueryParam("host")},
		"spec.cpus": {"2"}, "spec.memoryMiB": {"2", "GiB"}, "spec.firmware": {string(fleet.BIOS)}, "start": {"yes"},
	}
	f := views.VMForm{Typed: typed}
	if err := s.choices(c, a, &f); err != nil {
		return err
	}
	if len(f.Pools.Options) > 0 {
		addRow(typed, "spec.disks")
	}
	if len(f.Networks.Options) > 0 {
		addRow(typed, "spec.nics")
	}
	return s.show(c, a, views.Frame{Title: "New VM"}, views.NewVM(f))
}

func (s *Server) createVM(c echo.Context, a fleet.Actor) error {
	typed, again, err := typedVM(c)
	if err != nil {
		return err
	}
	if again {
		return s.showNewVM(c, a, http.StatusOK, typed, views.Errors{})
	}
	var checks fleet.Checks
	ask := control.CreateVM{
		ProjectID: fleet.ProjectID(typed.Get("projectId")), HostID: fleet.HostID(typed.Get("hostId")), Name: strings.TrimSpace(typed.Get("name")),
		Labels: labelsOf(&checks, "labels", typed.Get("labels")), Description: typed.Get("description"),
		Spec: specOf(&checks, typed, fleet.VMSpec{}), Start: typed.Get("start") != "", Overcommit: typed.Get("overcommit") != "",
	}
	if err = checks.Err(); err == nil {
		var vm fleet.VMID
		if vm, err = s.createOnce(c.Request().Context(), a, typed.Get("key"), ask); err == nil {
			return s.leave(c, views.VMPath(vm))
		}
	} else {
		// What control would say about the rest is said at once, not after the first correction.
		var rest fleet.Checks
		fleet.CheckName(&rest, "name", ask.Name)
		ask.Spec.Power = fleet.Stopped
		ask.Spec.Check(&rest, "spec")
		err = merge(&checks, rest.Err())
	}
	e, status, ok := formErrors(err)
	if !ok {
		return err
	}
	return s.showNewVM(c, a, formStatus(c, status), typed, e)
}

// createOnce makes one VM of a form that is sent twice.
func (s *Server) createOnce(ctx context.Context, a fleet.Actor, form string, ask control.CreateVM) (fleet.VMID, error) {
	request, err := json.Marshal(ask)
	if err != nil {
		return "", err
	}
	k := control.Key{Name: form, Request: request, Secret: s.Sessions.Token(ctx)}
	return once(ctx, s, a, k, func(ctx context.Context) (fleet.VMID, error) {
		vm, err := s.Control.CreateVM(ctx, a, ask)
		return vm.ID, err
	})
}

// showNewVM shows again what was typed, with what is wrong.
func (s *Server) showNewVM(c echo.Context, a fleet.Actor, status int, typed url.Values, e views.Errors) error {
	f := views.VMForm{Typed: typed, Errors: e, MayOvercommit: policy.May(a, policy.InfraChange, "")}
	if err := s.choices(c, a, &f); err != nil {
		return err
	}
	return s.showAs(c, status, a, views.Frame{Title: "New VM"}, views.NewVM(f))
}
