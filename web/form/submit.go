// Package form decodes submitted forms and answers them: submit.go has the outcomes that are the same for all forms,
// decode.go reads the fields and values.go parses values that users write, such as sizes and labels.
package form

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/render"
)

// Renderer shows the page or dialog of a form F with the values of in. how holds the status and the errors of a refused
// form.
type Renderer[F any] func(c echo.Context, a fleet.Actor, in F, how Display) error

// Action passes a submitted form F to control. After success, it returns the response to send.
type Action[F any] func(c echo.Context, a fleet.Actor, in F) (Response, error)

// Response sends the response to a form after success: stay on the page, redirect, redraw, or a page that is shown only
// once.
type Response func(c echo.Context) error

// EmptyForm is a form without fields, only a button.
type EmptyForm struct{}

// Display describes how a form is shown: for the first time, or again after a refusal, with its status and errors.
type Display struct {
	Status int
	Errors kit.Errors
}

// FirstDisplay is the Display of a form that is shown for the first time.
var FirstDisplay = Display{Status: http.StatusOK}

// WasRefused reports whether the form was submitted and refused.
func (h Display) WasRefused() bool { return h.Status != http.StatusOK }

// Show returns the handler that shows a form.
func Show[F any](show Renderer[F]) func(c echo.Context, a fleet.Actor) error {
	return func(c echo.Context, a fleet.Actor) error {
		var in F
		return show(c, a, in, FirstDisplay)
	}
}

// Submit returns the handler that takes a form, with the same outcomes for all forms:
//
//	decode   an unreadable form is Malformed or TooLarge, with the usual error response
//	do       calls control with the form
//	refused  Invalid and Conflict show the form again, with its input and each error at its field: status 422 and 409,
//	         and always 422 to htmx, which swaps no other error; any other error, and all errors if show is nil, get
//	         the usual error response
//	success  the response that do returned
func Submit[F any](do Action[F], show Renderer[F]) func(c echo.Context, a fleet.Actor) error {
	return func(c echo.Context, a fleet.Actor) error {
		in, err := Decode[F](c)
		if err != nil {
			return err
		}
		taken, err := do(c, a, in)
		if err == nil {
			return taken(c)
		}
		if e, status, ok := ErrorsFrom(err); ok && show != nil {
			return show(c, a, in, Display{RefusedFormStatus(c, status), e})
		}
		return err
	}
}

// SubmitWithoutForm is Submit for a form that is not shown again. Errors are shown as a toast, or as a page without
// JavaScript.
func SubmitWithoutForm[F any](do Action[F]) func(c echo.Context, a fleet.Actor) error {
	return Submit(do, nil)
}

// StayOnPage keeps the user on the page. With JavaScript, the dialog closes and text is shown as a toast; the live page
// updates itself. Without JavaScript, the response redirects to back.
func StayOnPage(back, text string) Response {
	return func(c echo.Context) error {
		if !render.IsHTMXRequest(c) {
			return c.Redirect(http.StatusSeeOther, back)
		}
		c.Response().Header().Set("HX-Trigger", triggerHeader(map[string]any{
			"close-dialog": true, "toast": map[string]string{"kind": "ok", "text": text},
		}))
		return c.NoContent(http.StatusNoContent)
	}
}

// RedirectTo sends the user to another page.
func RedirectTo(to string) Response {
	return func(c echo.Context) error {
		if !render.IsHTMXRequest(c) {
			return c.Redirect(http.StatusSeeOther, to)
		}
		c.Response().Header().Set("HX-Redirect", to)
		return c.NoContent(http.StatusNoContent)
	}
}

// Redraw calls show, which renders the part of the page with the form again. Without JavaScript, the response redirects
// to back.
func Redraw(back string, show func(c echo.Context) error) Response {
	return func(c echo.Context) error {
		if !render.IsHTMXRequest(c) {
			return c.Redirect(http.StatusSeeOther, back)
		}
		return show(c)
	}
}

// OpenDialog shows the dialog that show renders, whichever element sent the request. Without JavaScript, the dialog is
// a page.
func OpenDialog(show func(c echo.Context) error) Response {
	return func(c echo.Context) error {
		if render.IsHTMXRequest(c) {
			c.Request().Header.Set("HX-Target", "dialog")
			c.Response().Header().Set("HX-Retarget", "#dialog")
			c.Response().Header().Set("HX-Reswap", "innerHTML")
		}
		return show(c)
	}
}

// ConfirmDialog returns the function that shows a confirmation dialog for an action on the object, such as its
// deletion.
func ConfirmDialog[ID ~string, T any](r *render.Renderer, get func(context.Context, fleet.Actor, ID) (T, error), frame func(T) shell.PageLayout, dialog func(T, kit.Errors) templ.Component) Renderer[EmptyForm] {
	return func(c echo.Context, a fleet.Actor, _ EmptyForm, how Display) error {
		object, err := get(c.Request().Context(), a, ID(c.Param("id")))
		if err != nil {
			return err
		}
		return r.ShowPageWithStatus(c, how.Status, a, frame(object), dialog(object, how.Errors))
	}
}

// triggerHeader encodes events for the HX-Trigger header as ASCII JSON, because headers allow only ASCII.
func triggerHeader(events map[string]any) string {
	text, err := json.Marshal(events)
	if err != nil {
		return "{}" // not reached: maps of strings and booleans always encode
	}
	var out strings.Builder
	for _, r := range string(text) {
		if r < 0x80 {
			out.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			out.WriteString(`\u` + strconv.FormatUint(uint64(u)+0x10000, 16)[1:])
		}
	}
	return out.String()
}
