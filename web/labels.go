package web

import (
	"context"
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

type labelForm struct {
	Selector string `form:"selector"`
}

// labelling is how a noun's objects come to hosts by label.
type labelling[ID ~string, T any] struct {
	get     getting[ID, T]
	now     func(context.Context, fleet.Actor, ID) (fleet.ByLabel, error)
	preview func(ctx context.Context, a fleet.Actor, id ID, selector string) (fleet.Labelled, error)
	set     func(ctx context.Context, a fleet.Actor, id ID, selector string) (fleet.ByLabel, error)
	frame   func(T) shell.Frame
	dialog  func(T, kit.LabelForm) templ.Component
	page    func(ID) string
}

func (s *Server) poolLabels() labelling[fleet.PoolID, fleet.PoolView] {
	return labelling[fleet.PoolID, fleet.PoolView]{
		s.Control.GetPool, s.Control.PoolLabels, s.Control.LabelledForPool, s.Control.LabelPool, poolFrame, poolview.Labels,
		func(id fleet.PoolID) string { return views.TabPath(views.PoolPath(id), "configure") },
	}
}

func (s *Server) networkLabels() labelling[fleet.NetworkID, fleet.NetworkView] {
	return labelling[fleet.NetworkID, fleet.NetworkView]{
		s.Control.NetworkBrief, s.Control.NetworkLabels, s.Control.LabelledForNetwork, s.Control.LabelNetwork, networkFrame, networkview.Labels,
		func(id fleet.NetworkID) string { return views.TabPath(views.NetworkPath(id), "summary") },
	}
}

// askLabels asks for the labels, and tells which hosts have them. Without scripts the form comes back to it by its address to tell so.
func askLabels[ID ~string, T any](s *Server, l labelling[ID, T]) asking[labelForm] {
	return func(c echo.Context, a fleet.Actor, in labelForm, how asked) error {
		ctx, id := c.Request().Context(), ID(c.Param("id"))
		object, err := l.get(ctx, a, id)
		if err != nil {
			return err
		}
		f := kit.LabelForm{Selector: in.Selector, Error: how.errors.At("selector"), Errors: how.errors}
		if !how.again() {
			f.Selector = c.QueryParam("selector")
			if !c.QueryParams().Has("selector") {
				now, err := l.now(ctx, a, id)
				if err != nil {
					return err
				}
				f.Selector = now.Selector
			}
		}
		if f.Error == "" {
			if f.Preview, err = previewOf(f.Selector, func(text string) (fleet.Labelled, error) { return l.preview(ctx, a, id, text) }); err != nil {
				return err
			}
		}
		return s.showAs(c, how.status, a, l.frame(object), l.dialog(object, f))
	}
}

// newLabels is that part of the form of a new object.
func newLabels[ID ~string](ctx context.Context, a fleet.Actor, noun fleet.Noun, text string, how asked, look func(context.Context, fleet.Actor, ID, string) (fleet.Labelled, error)) (f kit.LabelForm, err error) {
	f = kit.LabelForm{Of: string(noun), Selector: text, Error: how.errors.At("selector")}
	if f.Error == "" && text != "" {
		f.Preview, err = previewOf(text, func(text string) (fleet.Labelled, error) { return look(ctx, a, "", text) })
	}
	return f, err
}

// previewOf says which hosts have the labels. What is wrong with them is no error: the preview says it.
func previewOf(text string, look func(string) (fleet.Labelled, error)) (kit.LabelPreview, error) {
	found, err := look(text)
	if e, _, ok := formErrors(err); ok && e.At("selector") != "" {
		return kit.LabelPreview{Error: e.At("selector")}, nil
	}
	return kit.LabelPreview{Labelled: found, Asked: strings.TrimSpace(text) != ""}, err
}

func setLabels[ID ~string, T any](l labelling[ID, T]) doing[labelForm] {
	return func(c echo.Context, a fleet.Actor, in labelForm) (end, error) {
		id := ID(c.Param("id"))
		now, err := l.set(c.Request().Context(), a, id, in.Selector)
		text := "Hosts with the labels " + now.Selector + " get it by themselves."
		if now.Selector == "" {
			text = "It comes to no host by itself any more. Hosts that have it keep it."
		}
		return stay(l.page(id), text), err
	}
}

// labelledHosts is what a form shows below its labels while they are typed.
func (s *Server) labelledHosts(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	noun, id := fleet.Subject(c.QueryParam("of")).Split()
	p, err := previewOf(c.QueryParam("selector"), func(text string) (fleet.Labelled, error) {
		switch fleet.Noun(noun) {
		case fleet.NounPool:
			return s.Control.LabelledForPool(ctx, a, fleet.PoolID(id), text)
		case fleet.NounNetwork:
			return s.Control.LabelledForNetwork(ctx, a, fleet.NetworkID(id), text)
		}
		return fleet.Labelled{}, fleet.Errorf(fleet.NotFound, "Nothing of that kind is assigned to hosts.")
	})
	if err != nil {
		return err
	}
	return s.part(c, a, "Hosts with the labels", kit.LabelledHosts(p))
}

// retried is the toast after an order for all hosts where something failed.
func retried(back string, r fleet.Retried) end { return stay(back, kit.RetriedText(r)) }

func (s *Server) retryPoolEverywhere(c echo.Context, a fleet.Actor, _ none) (end, error) {
	id := fleet.PoolID(c.Param("id"))
	r, err := s.Control.RetryPoolEverywhere(c.Request().Context(), a, id)
	return retried(views.PoolPath(id), r), err
}

func (s *Server) retryNetworkEverywhere(c echo.Context, a fleet.Actor, _ none) (end, error) {
	id := fleet.NetworkID(c.Param("id"))
	r, err := s.Control.RetryNetworkEverywhere(c.Request().Context(), a, id)
	return retried(views.NetworkPath(id), r), err
}
