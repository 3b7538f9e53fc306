// Package imagetest makes configs of ClusterImages in which no field is empty. A
// test of code that copies, merges or prints a config finds with them the field
// that the code forgot.
package imagetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image"
)

// Filled returns a config whose every field, and every field of its parts, is
// set. Text in it is the path of its field: "~Cmd.Parent[0]~".
func Filled() image.Config {
	var c image.Config
	fill(reflect.ValueOf(&c).Elem(), "")
	return c
}

// fill sets v, which stands at path.
func fill(v reflect.Value, path string) {
	switch v.Addr().Interface().(type) {
	case *time.Time:
		v.Set(reflect.ValueOf(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)))
		return
	case *digest.Digest:
		v.Set(reflect.ValueOf(digest.FromString(path)))
		return
	case *image.Name:
		v.Set(reflect.ValueOf(image.ParseName("example.com/" + strings.ToLower(strings.NewReplacer("[", "-", "]", "", ".", "-").Replace(path)) + ":v1")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path+"[0]")
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, path+".key")
		fill(value, path+".value")
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("~" + path + "~")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic(fmt.Sprintf("imagetest: %s is a %s: teach fill to fill it", path, v.Type()))
	}
}

// Lost returns the faults of code that takes every field of Filled() but those
// leftOut into got: the fields of which got has nothing, and the fields of
// leftOut that it has. got is any value; its JSON is searched for the texts of
// each field.
func Lost(got any, leftOut ...string) []string {
	b, err := json.Marshal(got)
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	for path, texts := range leaves() {
		found := slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(string(b), text) })
		if listed := slices.Contains(leftOut, path); found == listed {
			faults = append(faults, fmt.Sprintf("%s: found is %v, left out on purpose is %v", path, found, listed))
		}
	}
	slices.Sort(faults)
	return faults
}

// leaves returns for each field of a Config, and each field of Cmd, Args, Launch
// and PrivateRegistry, the texts in it, as JSON has them.
func leaves() map[string][]string {
	out := map[string][]string{}
	c := reflect.ValueOf(Filled())
	for i := range c.NumField() {
		name, v := c.Type().Field(i).Name, reflect.Indirect(c.Field(i))
		switch v.Interface().(type) {
		case image.Commands, image.Arguments, image.Launch, image.PrivateRegistry:
			for j := range v.NumField() {
				out[name+"."+v.Type().Field(j).Name] = texts(v.Field(j))
			}
		default:
			out[name] = texts(v)
		}
	}
	return out
}

// texts returns the texts in v that no other field has.
func texts(v reflect.Value) []string {
	b, err := json.Marshal(v.Interface())
	if err != nil {
		panic(err)
	}
	var decoded any
	if err := json.Unmarshal(b, &decoded); err != nil {
		panic(err)
	}
	var out []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(out, strings.TrimPrefix(v, "sha256:"))
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for k, e := range v {
				if strings.Contains(k, ".key~") {
					out = append(out, k)
				}
				walk(e)
			}
		}
	}
	walk(decoded)
	return out
}
