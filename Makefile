# Sediment. `make help` lists the targets.
#
# The core (csrc/ but csrc/lua/) is compiled once and linked into a module for each Lua; csrc/lua/ is compiled per Lua, since the two Lua ABIs
# differ. V=asan and V=tsan build the core and the C tests again, with a sanitizer, in a folder of their own.

CFLAGS ?= -O2 -g
WERROR ?= -Werror
WARN   := -Wall -Wextra -Wshadow -Wconversion $(WERROR)
LDLIBS := -lpthread -ldl
PREFIX ?= /usr/local
V      ?=

LUA54  ?= lua5.4
LUAJIT ?= luajit
LUA    ?= $(LUA54)

O := build$(if $(V),/$(V))
is_clang = $(shell $(CC) --version 2>/dev/null | grep -i clang)
SANITIZE_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_tsan  = -O1 -fsanitize=thread -fno-omit-frame-pointer $(if $(is_clang),,-Wno-tsan)
SANITIZE = $(SANITIZE_$(V))

COMPILE = $(CC) -std=gnu11 -D_GNU_SOURCE -Icsrc $(CPPFLAGS) $(WARN) $(CFLAGS) $(SANITIZE) -fPIC -fvisibility=hidden -MMD -MP
LINK    = $(CC) $(CFLAGS) $(SANITIZE) $(LDFLAGS)

CORE_SRC := $(filter-out csrc/lua/%,$(sort $(wildcard csrc/*/*.c)))
LUA_SRC  := $(sort $(wildcard csrc/lua/*.c))
CORE_OBJ := $(CORE_SRC:csrc/%.c=$(O)/obj/%.o)
MODULES  := $(if $(LUA_SRC),build/5.4/sediment/core.so build/luajit/sediment/core.so)

TEST_SRC   := $(sort $(wildcard spec/c/*_test.c))
HELPER_SRC := $(filter-out $(TEST_SRC),$(sort $(wildcard spec/c/*.c)))
TSAN_TESTS ?= $(sort $(wildcard spec/c/*thread*_test.c spec/c/log*_test.c))
C_TESTS    := $(patsubst spec/c/%.c,$(O)/spec/%,$(if $(filter tsan,$(V)),$(TSAN_TESTS),$(TEST_SRC)))
BENCHES    := $(patsubst bench/%.c,build/bench/%,$(sort $(wildcard bench/*.c)))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all help deps test tidy rockspec-check c-tests env demo bench kafka install uninstall clean list-c-tests

all: build/libsediment.a $(MODULES)  ## the core and the module for both Luas, in build/ (the default)

help:  ## this list
	@sed -n 's/^\([a-z][a-z-]*\):.*  ## /  make \1\t/p' Makefile | expand -t 24

# ---- the core ----

$(O)/obj/%.o: csrc/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

$(O)/libsediment.a: $(CORE_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $(CORE_OBJ)

# ---- the modules ----

pkg_config = $(shell for n in $(2); do pkg-config $(1) $$n 2>/dev/null && break; done)
CFLAGS_5.4    = $(call pkg_config,--cflags,lua5.4 lua-5.4 lua54)
CFLAGS_luajit = $(call pkg_config,--cflags,luajit)

define module
build/$(1)/obj/%.o: csrc/lua/%.c Makefile
	@mkdir -p $$(@D)
	$$(COMPILE) $$(CFLAGS_$(1)) -c -o $$@ $$<

build/$(1)/sediment/core.so: $$(LUA_SRC:csrc/lua/%.c=build/$(1)/obj/%.o) $$(CORE_OBJ)
	@mkdir -p $$(@D)
	$$(LINK) -shared -o $$@ $$^ $$(LDLIBS)
endef
$(eval $(call module,5.4))
$(eval $(call module,luajit))

# ---- C tests: each spec/c/*_test.c is a program; what else is in spec/c/ is linked in where it is used ----

$(O)/spec/obj/%.o: spec/c/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -Ispec/c -c -o $@ $<

$(O)/spec/libhelpers.a: $(HELPER_SRC:spec/c/%.c=$(O)/spec/obj/%.o)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(O)/spec/%_test: $(O)/spec/obj/%_test.o $(O)/spec/libhelpers.a $(O)/libsediment.a
	$(LINK) -o $@ $^ $(LDLIBS)

c-tests: $(C_TESTS)  ## the C test programs (V=asan, V=tsan: with that sanitizer)

list-c-tests:
	@printf '%s\n' $(C_TESTS)

# ---- checks ----

deps:  ## what building and testing needs: installed on Debian as root, listed elsewhere
	@sh tools/install-deps.sh

test:  ## everything: tidy checks, C tests plain and sanitized, specs on both Luas (ONLY=pattern narrows)
	@LUA54='$(LUA54)' LUAJIT='$(LUAJIT)' sh tools/run-tests.sh '$(ONLY)'

tidy:  ## the tidy checks alone
	@LUA54='$(LUA54)' LUAJIT='$(LUAJIT)' sh tools/run-tests.sh tidy/

rockspec-check:  ## the rockspec against the tree
	@$(LUA54) tools/check-rockspec.lua

# ---- benchmarks ----

build/bench/%: bench/%.c build/libsediment.a Makefile
	@mkdir -p $(@D)
	$(COMPILE) -o $@ $< build/libsediment.a $(LDLIBS)

clean:  ## removes build/
	rm -rf build

-include $(wildcard $(O)/obj/*/*.d $(O)/spec/obj/*.d build/5.4/obj/*.d build/luajit/obj/*.d build/bench/*.d)
