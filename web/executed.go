package web

import (
	"context"
	"slices"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	networkview "quantix/views/network"
	poolview "quantix/views/pool"
	"quantix/views/shell"
)

// assignedType describes the pages of a resource type whose objects T are assigned to hosts, each with a host status C:
// pools and networks share their handlers and differ in these fields.
type assignedType[ID ~string, T, C any] struct {
	typ               fleet.ResourceType
	load              objectGetter[ID, T] // the object with its first hosts
	brief             objectGetter[ID, T]
	status            func(ctx context.Context, a fleet.Actor, id ID, host fleet.HostID) (C, error)
	isAssigned        func(T, fleet.HostID) bool
	unmetRequirements func(T, fleet.Host) []kit.Lack // unmet requirements of a host
	frame             func(T) shell.Frame

	assign        func(fleet.Actor, T, []kit.HostChoice, kit.Errors) templ.Component
	release       func(fleet.Actor, T, C, kit.Errors) templ.Component
	confirmDelete func(fleet.Actor, T, kit.Errors) templ.Component
	labels        func(fleet.Actor, T, kit.LabelForm) templ.Component
	labelsTab     string // the tab of the object's page that shows the label selector
}

func (s *Server) poolType() assignedType[fleet.PoolID, fleet.PoolView, fleet.PoolHost] {
	return assignedType[fleet.PoolID, fleet.PoolView, fleet.PoolHost]{
		typ: fleet.TypePool, load: s.Control.GetPool, brief: s.Control.GetPool, status: s.Control.PoolHost, frame: poolFrame,
		isAssigned: func(v fleet.PoolView, h fleet.HostID) bool {
			return slices.ContainsFunc(v.Hosts, func(p fleet.PoolHost) bool { return p.HostID == h && p.Assigned })
		},
		unmetRequirements: func(v fleet.PoolView, h fleet.Host) []kit.Lack { return poolview.Lacks(h, v.Spec.Kind) },
		assign:            poolview.Assign, release: poolview.Release, confirmDelete: poolview.Delete, labels: poolview.Labels, labelsTab: "configure",
	}
}

func (s *Server) networkType() assignedType[fleet.NetworkID, fleet.NetworkView, fleet.NetworkHost] {
	return assignedType[fleet.NetworkID, fleet.NetworkView, fleet.NetworkHost]{
		typ: fleet.TypeNetwork, load: s.Control.GetNetwork, brief: s.Control.NetworkBrief, status: s.Control.NetworkHost, frame: networkFrame,
		isAssigned: func(n fleet.NetworkView, h fleet.HostID) bool {
			return slices.ContainsFunc(n.Hosts, func(x fleet.NetworkHost) bool { return x.HostID == h && x.Assigned })
		},
		unmetRequirements: func(n fleet.NetworkView, h fleet.Host) []kit.Lack {
			if n.Spec == nil {
				return nil
			}
			return networkview.Lacks(h, n.Spec.Mode)
		},
		assign: networkview.Assign, release: networkview.Release, confirmDelete: networkview.Delete, labels: networkview.Labels, labelsTab: "summary",
	}
}

// subject returns the object in the request's path.
func (e assignedType[ID, T, C]) subject(c echo.Context) fleet.Subject {
	return fleet.SubjectOf(e.typ, c.Param("id"))
}

func (e assignedType[ID, T, C]) pagePath(c echo.Context) string {
	return e.typ.Info().PagePath(c.Param("id"))
}

type assignForm struct {
	Hosts []fleet.HostID `form:"host"`
}

func showAssignForm[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formRenderer[assignForm] {
	return func(c echo.Context, a fleet.Actor, in assignForm, how formState) error {
		ctx := c.Request().Context()
		object, err := e.load(ctx, a, ID(c.Param("id")))
		if err != nil {
			return err
		}
		var lacks func(fleet.Host) []kit.Lack
		if e.unmetRequirements != nil {
			lacks = func(h fleet.Host) []kit.Lack { return e.unmetRequirements(object, h) }
		}
		hosts, err := s.hostChoices(ctx, a, in.Hosts, func(h fleet.HostID) bool { return e.isAssigned(object, h) }, lacks)
		if err != nil {
			return err
		}
		return s.showPageWithStatus(c, how.status, a, e.frame(object), e.assign(a, object, hosts, how.errors))
	}
}

func submitAssign[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formAction[assignForm] {
	return func(c echo.Context, a fleet.Actor, in assignForm) (formResponse, error) {
		tasks, err := s.Control.Assign(c.Request().Context(), a, e.subject(c), in.Hosts)
		return stayOnPage(e.pagePath(c), kit.Count(len(tasks), "host")+" will get the "+e.typ.Info().Label+"."), err
	}
}

func confirmRelease[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formRenderer[emptyForm] {
	return func(c echo.Context, a fleet.Actor, _ emptyForm, how formState) error {
		ctx, id := c.Request().Context(), ID(c.Param("id"))
		object, err := e.brief(ctx, a, id)
		if err != nil {
			return err
		}
		status, err := e.status(ctx, a, id, fleet.HostID(c.Param("host")))
		if err != nil {
			return err
		}
		return s.showPageWithStatus(c, how.status, a, e.frame(object), e.release(a, object, status, how.errors))
	}
}

func submitRelease[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formAction[emptyForm] {
	return func(c echo.Context, a fleet.Actor, _ emptyForm) (formResponse, error) {
		_, err := s.Control.Release(c.Request().Context(), a, e.subject(c), fleet.HostID(c.Param("host")))
		return stayOnPage(e.pagePath(c), "The host will release the "+e.typ.Info().Label+"."), err
	}
}

func submitRetry[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formAction[emptyForm] {
	return func(c echo.Context, a fleet.Actor, _ emptyForm) (formResponse, error) {
		_, err := s.Control.Retry(c.Request().Context(), a, e.subject(c), fleet.HostID(c.Param("host")))
		return stayOnPage(e.pagePath(c), "The host will try again."), err
	}
}

func submitRetryEverywhere[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formAction[emptyForm] {
	return func(c echo.Context, a fleet.Actor, _ emptyForm) (formResponse, error) {
		r, err := s.Control.RetryEverywhere(c.Request().Context(), a, e.subject(c))
		return stayOnPage(e.pagePath(c), kit.RetriedText(r)), err
	}
}

func confirmDelete[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formRenderer[emptyForm] {
	return func(c echo.Context, a fleet.Actor, in emptyForm, how formState) error {
		dialog := func(object T, errs kit.Errors) templ.Component { return e.confirmDelete(a, object, errs) }
		return confirm(s, e.brief, e.frame, dialog)(c, a, in, how)
	}
}

// submitDelete deletes the object and redirects to the list, which shows the state of a deletion that is not finished.
func submitDelete[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formAction[emptyForm] {
	return func(c echo.Context, a fleet.Actor, _ emptyForm) (formResponse, error) {
		_, err := s.Control.DeleteEverywhere(c.Request().Context(), a, e.subject(c))
		return redirect(e.typ.Info().Path), err
	}
}

type labelForm struct {
	Selector string `form:"selector"`
}

// showLabelForm shows the form for the label selector, with the matching hosts. Without scripts, the form reloads its
// own address to update the matching hosts.
func showLabelForm[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formRenderer[labelForm] {
	return func(c echo.Context, a fleet.Actor, in labelForm, how formState) error {
		ctx := c.Request().Context()
		object, err := e.brief(ctx, a, ID(c.Param("id")))
		if err != nil {
			return err
		}
		f := kit.LabelForm{Selector: in.Selector, Error: how.errors.At("selector"), Errors: how.errors}
		if !how.wasRefused() {
			f.Selector = c.QueryParam("selector")
			if !c.QueryParams().Has("selector") {
				now, err := s.Control.ByLabel(ctx, a, e.subject(c))
				if err != nil {
					return err
				}
				f.Selector = now.Selector
			}
		}
		if f.Error == "" {
			if f.Preview, err = s.previewSelector(ctx, a, e.subject(c), f.Selector); err != nil {
				return err
			}
		}
		return s.showPageWithStatus(c, how.status, a, e.frame(object), e.labels(a, object, f))
	}
}

func submitLabelForm[ID ~string, T, C any](s *Server, e assignedType[ID, T, C]) formAction[labelForm] {
	return func(c echo.Context, a fleet.Actor, in labelForm) (formResponse, error) {
		now, err := s.Control.AssignByLabel(c.Request().Context(), a, e.subject(c), in.Selector)
		text := "Hosts with the labels " + now.Selector + " get the " + e.typ.Info().Label + " automatically."
		if now.Selector == "" {
			text = "Assignment by label is off. Hosts that have the " + e.typ.Info().Label + " keep it."
		}
		return stayOnPage(views.TabPath(e.pagePath(c), e.labelsTab), text), err
	}
}

// newLabelForm returns the label selector part of the form of a new object.
func (s *Server) newLabelForm(ctx context.Context, a fleet.Actor, typ fleet.ResourceType, text string, how formState) (f kit.LabelForm, err error) {
	f = kit.LabelForm{Of: string(typ), Selector: text, Error: how.errors.At("selector")}
	if f.Error == "" && text != "" {
		f.Preview, err = s.previewSelector(ctx, a, fleet.SubjectOf(typ, ""), text)
	}
	return f, err
}

// previewSelector returns the hosts that match the selector text. For an invalid selector it returns no error, but a
// preview with the reason.
func (s *Server) previewSelector(ctx context.Context, a fleet.Actor, of fleet.Subject, text string) (kit.LabelPreview, error) {
	found, err := s.Control.LabelledHosts(ctx, a, of, text)
	if e, _, ok := formErrors(err); ok && e.At("selector") != "" {
		return kit.LabelPreview{Error: e.At("selector")}, nil
	}
	return kit.LabelPreview{Labelled: found, Asked: strings.TrimSpace(text) != ""}, err
}

// showLabelledHosts shows the matching hosts below the selector while the user types.
func (s *Server) showLabelledHosts(c echo.Context, a fleet.Actor) error {
	p, err := s.previewSelector(c.Request().Context(), a, fleet.Subject(c.QueryParam("of")), c.QueryParam("selector"))
	if err != nil {
		return err
	}
	return s.writeFragment(c, a, "Hosts with the labels", kit.LabelledHosts(p))
}
