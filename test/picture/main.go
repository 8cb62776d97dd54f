// Command picture runs a program on a terminal of its own, and draws what stands on it
// as an SVG:
//
//	picture -size 80x24 -wait 'Ctrl-C ends' -- windlass svc top prod/shop/api >top.svg
//
// It takes the steps -wait, -resize and -type in their order. Where the last is -wait it
// draws then, and ends the program as a terminal that is closed does; else it draws when
// the program has ended. scripts/picture draws the pictures of the documents with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// options are what the command line asks for.
type options struct {
	size  size
	steps []step
	// limit bounds the whole, so that a text that never comes is told of.
	limit   time.Duration
	theme   theme
	out     string
	command []string
}

// size is a terminal's, in cells.
type size struct{ cols, rows int }

// step is what is done while the program runs: one of its fields is set.
type step struct {
	wait   string
	resize size
	typed  string
}

func (s *size) parse(text string) error {
	cols, rows, ok := strings.Cut(text, "x")
	var errs [2]error
	s.cols, errs[0] = strconv.Atoi(cols)
	s.rows, errs[1] = strconv.Atoi(rows)
	if err := errors.Join(errs[:]...); !ok || err != nil || min(s.cols, s.rows) < 1 || max(s.cols, s.rows) > 2000 {
		return fmt.Errorf("%q is no COLUMNSxROWS, each from 1 to 2000", text)
	}
	return nil
}

func parseOptions(args []string) (options, error) {
	o := options{size: size{80, 24}, limit: time.Minute}
	fs := flag.NewFlagSet("picture", flag.ContinueOnError)
	fs.Func("size", "COLUMNSxROWS of the terminal (80x24); what scrolls out of it is drawn too", o.size.parse)
	fs.Func("wait", "step: until this `text` stands on the screen", func(text string) error {
		o.steps = append(o.steps, step{wait: text})
		return nil
	})
	fs.Func("resize", "step: give the terminal another `size`", func(text string) error {
		var s step
		err := s.resize.parse(text)
		o.steps = append(o.steps, s)
		return err
	})
	fs.Func("type", "step: type this `text`, with escapes as in Go: '\\x03' is Ctrl-C", func(text string) error {
		typed, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
		o.steps = append(o.steps, step{typed: typed})
		return err
	})
	fs.DurationVar(&o.limit, "limit", o.limit, "time for all of it")
	fs.Func("theme", "auto (the reader's), dark or light", func(text string) error {
		switch o.theme = theme(text); o.theme {
		case themeAuto, themeDark, themeLight:
			return nil
		}
		return errors.New("it is auto, dark or light")
	})
	fs.StringVar(&o.out, "o", "", "`file` to write; else standard output. {theme} in it makes a picture for each of dark and light")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.command = fs.Args(); len(o.command) == 0 {
		return o, errors.New("the program to run is missing")
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("not done after %s", o.limit))
	defer stop()
	rows, err := play(ctx, o)
	if err != nil {
		return err
	}
	switch {
	case o.out == "":
		_, err = os.Stdout.Write(draw(rows, o.theme))
		return err
	case strings.Contains(o.out, "{theme}"):
		for _, t := range []theme{themeDark, themeLight} {
			err = errors.Join(err, os.WriteFile(strings.ReplaceAll(o.out, "{theme}", string(t)), draw(rows, t), 0o644))
		}
		return err
	}
	return os.WriteFile(o.out, draw(rows, o.theme), 0o644)
}
