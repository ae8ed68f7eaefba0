package kit

import "testing"

func TestErrorsByField(t *testing.T) {
	t.Parallel()
	e := Errors{Fields: map[string]string{"name": "Give a name."}}
	if !e.Any() || e.At("name") != "Give a name." || e.At("cpus") != "" {
		t.Errorf("%+v", e)
	}
	if !(Errors{Form: "Not possible."}).Any() || (Errors{}).Any() {
		t.Error("a form's own error does not count, or none does")
	}
}
