package form

import (
	"errors"
	"net/url"

	"github.com/go-playground/form/v4"
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/web/bodylimit"
	"quantix/web/problem"
	"quantix/web/render"
)

// MaxRows limits the number of rows of a list in a form: disks, NICs, selected VMs.
const MaxRows = control.MaxBulkVMs

var formDecoder = newFormDecoder()

func newFormDecoder() *form.Decoder {
	d := form.NewDecoder()
	d.SetMaxArraySize(MaxRows)
	return d
}

// Decode reads the request's form into a T: by its `form:"name"` tags, or by its method ReadForm. T holds numbers as
// text, so that the form can show invalid input beside the error.
func Decode[T any](c echo.Context) (T, error) {
	var into T
	r := c.Request()
	if err := r.ParseForm(); err != nil {
		if limited := bodylimit.ConvertMaxBytesError(err); fleet.CodeOf(limited) != "" {
			return into, limited
		}
		return into, UnreadableFormError()
	}
	if own, ok := any(&into).(interface{ ReadForm(sent url.Values) }); ok {
		own.ReadForm(r.PostForm)
		return into, nil
	}
	if err := formDecoder.Decode(&into, r.PostForm); err != nil {
		return into, UnreadableFormError()
	}
	return into, nil
}

func UnreadableFormError() error {
	return fleet.Errorf(fleet.Malformed, "The form cannot be read. Reload the page and try again.")
}

// ErrorsFrom converts an error of code Invalid or Conflict to the errors that a form shows at its fields or above its
// button. For any other error ok is false: the form cannot show it, so the handler must return the error.
func ErrorsFrom(err error) (e kit.Errors, status int, ok bool) {
	var refused *fleet.Error
	if !errors.As(err, &refused) || refused.Code != fleet.Invalid && refused.Code != fleet.Conflict {
		return e, 0, false
	}
	e = kit.Errors{Form: refused.Error(), Fields: map[string]string{}}
	for _, f := range refused.Fields {
		if e.Fields[f.Field] == "" {
			e.Fields[f.Field] = f.Message
		}
	}
	return e, problem.StatusByCode[refused.Code], true
}

// RefusedFormStatus returns the status for a refused form, which is shown again: always 422 to htmx, which swaps no
// other error.
func RefusedFormStatus(c echo.Context, status int) int {
	if render.IsHTMXRequest(c) {
		return 422
	}
	return status
}

// JoinErrors joins the errors found while a form was decoded with the error from control.
func JoinErrors(checks *fleet.Checks, err error) error {
	own := checks.Err()
	switch {
	case own == nil:
		return err
	case fleet.CodeOf(err) != fleet.Invalid:
		return own
	}
	var a, b *fleet.Error
	errors.As(own, &a)
	errors.As(err, &b)
	both := &fleet.Checks{}
	for _, f := range append(a.Fields, b.Fields...) {
		both.Add(f.Field, "%s", f.Message)
	}
	return both.Err()
}
