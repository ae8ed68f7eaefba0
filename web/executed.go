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

// executed describes the pages of a resource type whose objects T are assigned to hosts, each with a host status C:
// pools and networks share their handlers and differ in these fields.
type executed[ID ~string, T, C any] struct {
	typ    fleet.ResourceType
	load   getting[ID, T] // the object with its first hosts
	brief  getting[ID, T]
	status func(ctx context.Context, a fleet.Actor, id ID, host fleet.HostID) (C, error)
	has    func(T, fleet.HostID) bool
	lacks  func(T, fleet.Host) []kit.Lack // unmet requirements of a host
	frame  func(T) shell.Frame

	assign    func(fleet.Actor, T, []kit.HostChoice, kit.Errors) templ.Component
	release   func(fleet.Actor, T, C, kit.Errors) templ.Component
	remove    func(fleet.Actor, T, kit.Errors) templ.Component
	labels    func(fleet.Actor, T, kit.LabelForm) templ.Component
	labelsTab string // the tab of the object's page that shows the label selector
}

func (s *Server) pools() executed[fleet.PoolID, fleet.PoolView, fleet.PoolHost] {
	return executed[fleet.PoolID, fleet.PoolView, fleet.PoolHost]{
		typ: fleet.TypePool, load: s.Control.GetPool, brief: s.Control.GetPool, status: s.Control.PoolHost, frame: poolFrame,
		has: func(v fleet.PoolView, h fleet.HostID) bool {
			return slices.ContainsFunc(v.Hosts, func(p fleet.PoolHost) bool { return p.HostID == h && p.Assigned })
		},
		lacks:  func(v fleet.PoolView, h fleet.Host) []kit.Lack { return poolview.Lacks(h, v.Spec.Kind) },
		assign: poolview.Assign, release: poolview.Release, remove: poolview.Delete, labels: poolview.Labels, labelsTab: "configure",
	}
}

func (s *Server) networks() executed[fleet.NetworkID, fleet.NetworkView, fleet.NetworkHost] {
	return executed[fleet.NetworkID, fleet.NetworkView, fleet.NetworkHost]{
		typ: fleet.TypeNetwork, load: s.Control.GetNetwork, brief: s.Control.NetworkBrief, status: s.Control.NetworkHost, frame: networkFrame,
		has: func(n fleet.NetworkView, h fleet.HostID) bool {
			return slices.ContainsFunc(n.Hosts, func(x fleet.NetworkHost) bool { return x.HostID == h && x.Assigned })
		},
		lacks: func(n fleet.NetworkView, h fleet.Host) []kit.Lack {
			if n.Spec == nil {
				return nil
			}
			return networkview.Lacks(h, n.Spec.Mode)
		},
		assign: networkview.Assign, release: networkview.Release, remove: networkview.Delete, labels: networkview.Labels, labelsTab: "summary",
	}
}

// of returns the object in the request's path.
func (e executed[ID, T, C]) of(c echo.Context) fleet.Subject {
	return fleet.SubjectOf(e.typ, c.Param("id"))
}

func (e executed[ID, T, C]) page(c echo.Context) string { return e.typ.Is().At(c.Param("id")) }

type assignForm struct {
	Hosts []fleet.HostID `form:"host"`
}

func askAssign[ID ~string, T, C any](s *Server, e executed[ID, T, C]) asking[assignForm] {
	return func(c echo.Context, a fleet.Actor, in assignForm, how formState) error {
		ctx := c.Request().Context()
		object, err := e.load(ctx, a, ID(c.Param("id")))
		if err != nil {
			return err
		}
		var lacks func(fleet.Host) []kit.Lack
		if e.lacks != nil {
			lacks = func(h fleet.Host) []kit.Lack { return e.lacks(object, h) }
		}
		hosts, err := s.hostChoices(ctx, a, in.Hosts, func(h fleet.HostID) bool { return e.has(object, h) }, lacks)
		if err != nil {
			return err
		}
		return s.showAs(c, how.status, a, e.frame(object), e.assign(a, object, hosts, how.errors))
	}
}

func doAssign[ID ~string, T, C any](s *Server, e executed[ID, T, C]) doing[assignForm] {
	return func(c echo.Context, a fleet.Actor, in assignForm) (end, error) {
		tasks, err := s.Control.Assign(c.Request().Context(), a, e.of(c), in.Hosts)
		return stay(e.page(c), kit.Count(len(tasks), "host")+" will get the "+e.typ.Is().Label+"."), err
	}
}

func askRelease[ID ~string, T, C any](s *Server, e executed[ID, T, C]) asking[none] {
	return func(c echo.Context, a fleet.Actor, _ none, how formState) error {
		ctx, id := c.Request().Context(), ID(c.Param("id"))
		object, err := e.brief(ctx, a, id)
		if err != nil {
			return err
		}
		status, err := e.status(ctx, a, id, fleet.HostID(c.Param("host")))
		if err != nil {
			return err
		}
		return s.showAs(c, how.status, a, e.frame(object), e.release(a, object, status, how.errors))
	}
}

func doRelease[ID ~string, T, C any](s *Server, e executed[ID, T, C]) doing[none] {
	return func(c echo.Context, a fleet.Actor, _ none) (end, error) {
		_, err := s.Control.Release(c.Request().Context(), a, e.of(c), fleet.HostID(c.Param("host")))
		return stay(e.page(c), "The host will release the "+e.typ.Is().Label+"."), err
	}
}

func doRetry[ID ~string, T, C any](s *Server, e executed[ID, T, C]) doing[none] {
	return func(c echo.Context, a fleet.Actor, _ none) (end, error) {
		_, err := s.Control.Retry(c.Request().Context(), a, e.of(c), fleet.HostID(c.Param("host")))
		return stay(e.page(c), "The host will try again."), err
	}
}

func doRetryEverywhere[ID ~string, T, C any](s *Server, e executed[ID, T, C]) doing[none] {
	return func(c echo.Context, a fleet.Actor, _ none) (end, error) {
		r, err := s.Control.RetryEverywhere(c.Request().Context(), a, e.of(c))
		return stay(e.page(c), kit.RetriedText(r)), err
	}
}

func askDelete[ID ~string, T, C any](s *Server, e executed[ID, T, C]) asking[none] {
	return func(c echo.Context, a fleet.Actor, in none, how formState) error {
		dialog := func(object T, errs kit.Errors) templ.Component { return e.remove(a, object, errs) }
		return confirm(s, e.brief, e.frame, dialog)(c, a, in, how)
	}
}

// doDelete deletes the object and redirects to the list, which shows the state of a deletion that is not finished.
func doDelete[ID ~string, T, C any](s *Server, e executed[ID, T, C]) doing[none] {
	return func(c echo.Context, a fleet.Actor, _ none) (end, error) {
		_, err := s.Control.DeleteEverywhere(c.Request().Context(), a, e.of(c))
		return redirect(e.typ.Is().Path), err
	}
}

type labelForm struct {
	Selector string `form:"selector"`
}

// askLabels shows the form for the label selector, with the matching hosts. Without scripts, the form reloads its own
// address to update the matching hosts.
func askLabels[ID ~string, T, C any](s *Server, e executed[ID, T, C]) asking[labelForm] {
	return func(c echo.Context, a fleet.Actor, in labelForm, how formState) error {
		ctx := c.Request().Context()
		object, err := e.brief(ctx, a, ID(c.Param("id")))
		if err != nil {
			return err
		}
		f := kit.LabelForm{Selector: in.Selector, Error: how.errors.At("selector"), Errors: how.errors}
		if !how.again() {
			f.Selector = c.QueryParam("selector")
			if !c.QueryParams().Has("selector") {
				now, err := s.Control.ByLabel(ctx, a, e.of(c))
				if err != nil {
					return err
				}
				f.Selector = now.Selector
			}
		}
		if f.Error == "" {
			if f.Preview, err = s.previewOf(ctx, a, e.of(c), f.Selector); err != nil {
				return err
			}
		}
		return s.showAs(c, how.status, a, e.frame(object), e.labels(a, object, f))
	}
}

func doLabels[ID ~string, T, C any](s *Server, e executed[ID, T, C]) doing[labelForm] {
	return func(c echo.Context, a fleet.Actor, in labelForm) (end, error) {
		now, err := s.Control.AssignByLabel(c.Request().Context(), a, e.of(c), in.Selector)
		text := "Hosts with the labels " + now.Selector + " get the " + e.typ.Is().Label + " automatically."
		if now.Selector == "" {
			text = "Assignment by label is off. Hosts that have the " + e.typ.Is().Label + " keep it."
		}
		return stay(views.TabPath(e.page(c), e.labelsTab), text), err
	}
}

// newLabels returns the label selector part of the form of a new object.
func (s *Server) newLabels(ctx context.Context, a fleet.Actor, typ fleet.ResourceType, text string, how formState) (f kit.LabelForm, err error) {
	f = kit.LabelForm{Of: string(typ), Selector: text, Error: how.errors.At("selector")}
	if f.Error == "" && text != "" {
		f.Preview, err = s.previewOf(ctx, a, fleet.SubjectOf(typ, ""), text)
	}
	return f, err
}

// previewOf returns the hosts that match the selector text. For an invalid selector it returns no error, but a preview
// with the reason.
func (s *Server) previewOf(ctx context.Context, a fleet.Actor, of fleet.Subject, text string) (kit.LabelPreview, error) {
	found, err := s.Control.LabelledHosts(ctx, a, of, text)
	if e, _, ok := formErrors(err); ok && e.At("selector") != "" {
		return kit.LabelPreview{Error: e.At("selector")}, nil
	}
	return kit.LabelPreview{Labelled: found, Asked: strings.TrimSpace(text) != ""}, err
}

// labelledHosts shows the matching hosts below the selector while the user types.
func (s *Server) labelledHosts(c echo.Context, a fleet.Actor) error {
	p, err := s.previewOf(c.Request().Context(), a, fleet.Subject(c.QueryParam("of")), c.QueryParam("selector"))
	if err != nil {
		return err
	}
	return s.part(c, a, "Hosts with the labels", kit.LabelledHosts(p))
}
